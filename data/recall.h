#pragma once

#include "autograd/real.h"
#include "data/story.h"

namespace headcount {

/// How hard the built-in corpus `recall` is. A line has 6 pairs + gap + 2 characters.
struct RecallOptions {
  Index pairs = 8;  ///< pairs of key and value in a line, 1 .. most_pairs()
  Index keys = 26;  ///< how many keys there are: a .. z, then A .. Z; 1 .. 52
  Index gap = 8;    ///< dots between the pairs and the queries, 0 .. 65536

  /// One for each key.
  Index most_pairs() const { return keys; }
};

/// One line of multi-query associative recall (Arora et al. 2023, "Zoology", arXiv:2312.04927):
/// distinct keys, each with a digit; a gap; then every key once more, in random order, with its
/// digit, which only the first half of the line tells. `a7 c2 k9 ........| c2 k9 a7` and a newline.
/// The digits after the bar are marked in Story::answers and cost nothing.
/// Throws DataError that names the option which is out of range.
Story write_recall(const RecallOptions& options, const Chooser& chooser);

}  // namespace headcount
