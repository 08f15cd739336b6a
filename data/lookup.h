#pragma once

#include "autograd/base/real.h"
#include "data/story.h"

namespace headcount {

/// Difficulty of the built-in corpus `lookup`.
struct LookupOptions {
  Index kinds = 2;  ///< kinds of lookups, 1 .. kMostLookupKinds
};

/// Side of the board. 5 is a prime, so that the squares form rows in 5 + 1 directions of which any
/// two cross in one square.
inline constexpr Index kLookupSide = 5, kMostLookupKinds = kLookupSide + 1;
inline constexpr Index kLookupPieces = 5, kLookupValues = 4, kLookupQuestions = 5;
/// Characters per line: pieces, questions with their answers, and a newline.
inline constexpr Index kLookupLine = kLookupPieces + 2 * kLookupQuestions + 1;

/// Line of pieces that stand on a board of 5 x 5 squares, then questions about them:
///
///     - A piece is one character, a Braille pattern for its square (x, y) and its value, 0 to 3.
///     - A question is one letter. It names a row of the board in which exactly one piece stands.
///     - The digit after a question is the answer: the value of that piece. It adds no nats.
///     - Row g of kind n has the squares with x + n y = g modulo 5, of the last kind those with
///       y = g. So each kind sorts the 25 squares into 5 rows of 5 in its own way.
///     - A line with fewer rows of one piece than questions ends in dots.
///
/// All but the answers and the dots is random. No question is asked twice, because its earlier
/// answer could be copied. The task is associative recall (Arora et al. 2023, "Zoology",
/// arXiv:2312.04927) with one key for each kind of question.
Story write_lookup(const LookupOptions& options, const Chooser& chooser);

}  // namespace headcount
