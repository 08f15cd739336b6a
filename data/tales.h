#pragma once

#include <string_view>
#include <vector>

#include "autograd/base/real.h"
#include "data/story.h"

namespace headcount {

/// How hard the built-in corpus `tales` is. The defaults give stories of about 250 characters.
struct TalesOptions {
  Index people = 3, things = 2, places = 3, distance = 3, questions = 2;
};

/// The names that stories draw from. No name may repeat.
struct TalesNames {
  std::vector<std::string_view> people, things, places;
};

/// 12 people, 16 things, 12 places.
const TalesNames& tales_names();

/// Throws ShapeError that names the option which is out of range; of questions there is at most one
/// about each person and thing.
void check(const TalesOptions& options, const TalesNames& names = tales_names());

/// One story: who is where, who has what; then people walk about, give, put down and pick up
/// things; then questions, as in
///
///     Clara is in the mill. Tom is in the barn. Ida is in the mill.
///     Tom has the cup. Ida has the map.
///     Ida gives the map to Clara. Tom runs to the mill. Tom puts down the cup.
///     Where is the cup? In the mill.
///     Who has the map? Clara.
///
/// and an empty line. A thing goes where its holder goes; people give to those in the same place
/// and pick up what lies there. Answers follow from the story and cost nothing. Story::answers
/// marks the letters of their names where the names of the grammar part ways: the first one, and
/// the second of "cave" and "cellar"; the sentence that named the answer last settles them. The
/// tasks are in the spirit of bAbI (Weston et al. 2015, arXiv:1502.05698), the grammar is our own.
/// Throws as check does.
Story tell_tale(const TalesOptions& options, const Chooser& chooser,
                const TalesNames& names = tales_names());

}  // namespace headcount
