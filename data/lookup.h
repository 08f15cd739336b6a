#pragma once

#include "autograd/base/real.h"
#include "data/story.h"

namespace headcount {

/// How hard the built-in corpus `lookup` is.
struct LookupOptions {
  Index kinds = 2;
};

/// The board has 5 x 5 squares: 5 is a prime, so its squares fall into rows in 5 + 1 directions of
/// which any two cross in one square.
inline constexpr Index kLookupSide = 5, kMostLookupKinds = kLookupSide + 1;
inline constexpr Index kLookupPieces = 5, kLookupValues = 4, kLookupQuestions = 5;
/// Characters of a line: pieces, questions with their answers, and a newline.
inline constexpr Index kLookupLine = kLookupPieces + 2 * kLookupQuestions + 1;

/// One line: pieces that stand on a board of 5 x 5 squares, then questions about them.
///
/// A piece is one character, a Braille pattern that stands for its square (x, y) and its value, 0
/// to 3. A question is one letter. It names a row of the board in which exactly one piece stands;
/// the digit after it is the value of that piece. Rows run in as many directions as there are kinds
/// of lookups: row g of kind n is the squares with x + n y = g modulo 5, of the last kind those
/// with y = g. Each kind sorts the same 25 squares into 5 rows of 5 in another way.
///
/// The digits are the answers: the pieces tell them, so they cost nothing. All else is random. No
/// question is asked twice, for what answered it once could be copied. A line with fewer rows that
/// have one piece alone than questions ends in dots instead of more. The task is
/// associative recall (Arora et al. 2023, "Zoology", arXiv:2312.04927) with one key for each kind
/// of question. Throws ShapeError that names the option which is out of range.
Story write_lookup(const LookupOptions& options, const Chooser& chooser);

}  // namespace headcount
