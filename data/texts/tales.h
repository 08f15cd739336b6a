#pragma once

#include <string_view>
#include <vector>

#include "autograd/base/real.h"
#include "data/texts/story.h"

namespace headcount {

/// Size of a story; the built-in corpus `tales` uses the defaults. `places` is the most places that
/// a story visits. No question is asked twice; a thing that is held has two, so that there are at
/// least `people` + `things` to draw from.
struct TalesOptions {
  Index people = 3, things = 2, places = 3, events = 3, questions = 2;
};

/// Names that stories draw from, all different.
struct TalesNames {
  std::vector<std::string_view> people, things, places;
};

/// Names of the corpus `tales`: 12 people, 16 things, 12 places.
const TalesNames& tales_names();

/// Story that says who is where and who has what, then what people do (walk about; give, put down
/// and pick up things), and ends with questions and an empty line:
///
///     Clara is in the mill. Tom is in the barn. Ida is in the mill.
///     Tom has the cup. Ida has the map.
///     Ida gives the map to Clara. Tom runs to the mill. Tom puts down the cup.
///     Where is the cup? In the mill.
///     Who has the map? Clara.
///
/// A thing goes where its holder goes; people give to those in the same place and pick up what lies
/// there. Answers follow from the story and add no nats. Story::distances marks the letters that
/// tell the grammar's names apart: the first one, and the second where first ones are equal. The
/// distance leads back to the sentence that named the answer last. The tasks follow bAbI (Weston et
/// al. 2015, arXiv:1502.05698); the grammar is our own.
Story tell_tale(const TalesOptions& options, const Chooser& chooser,
                const TalesNames& names = tales_names());

}  // namespace headcount
