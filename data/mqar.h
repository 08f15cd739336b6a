#pragma once

#include "autograd/base/real.h"
#include "data/story.h"

namespace headcount {

/// Difficulty of the built-in corpora `mqar` and `recall`, which differ in sizes only.
struct MqarOptions {
  Index pairs = 4;          ///< keys with their values, and questions
  Index length = 64;        ///< characters per line, even, at least 4 per pair
  bool random_fill = true;  ///< characters between questions are random; otherwise dots
  Index symbols = 8192;     ///< different characters: a dot, then keys, then values; even
};

/// Line of the task multi-query associative recall (Arora et al. 2023, "Zoology",
/// arXiv:2312.04927, section 4), as its authors' generator makes it:
///
///     - The line begins with `pairs` keys, each followed by its value. Keys differ, values differ.
///     - In the rest, each key stands once more, as a question. Questions stand at every second
///       place only; place n, counted from 1, is drawn with a weight of n^-0.99.
///     - The answer to a question is the value of that key. It is to be predicted at the question,
///       but does not stand in the text (TextMarks::hidden_answers).
///     - All other places are filled with any of the `symbols` characters, or with dots.
///
/// Half of the characters are values; the other half are a dot and the keys. A character is a
/// Chinese one, U+4E00 + number, where zoology has a number; its 0 is a dot. Throws ShapeError for
/// a line that is too short for its pairs, or odd, and for symbols that are odd or too few.
Story write_mqar(const MqarOptions& options, const Chooser& chooser);

}  // namespace headcount
