// "The cat drinks the milk because it is sweet / hungry": what does "it" refer to? A blog answers
// with self-attention worked by hand, Q = K = V. This program does the sum again and shows the
// published figures beside the true ones.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "autograd/ops.h"

namespace {

using namespace headcount;

constexpr Index kWords = 4, kWidth = 4;  // two of the four columns are zero for all words

struct Sentence {
  std::array<const char*, kWords> words;
  std::vector<Real> vectors;  // [kWords, kWidth]
  std::array<std::array<double, 2>, kWords> published;
};

const std::array<Sentence, 2> kSentences = {{
    {{"cat", "milk", "it", "sweet"},
     {2, 2, 0, 0, 1, 3, 0, 0, 2, 2, 0, 0, 0, 4, 0, 0},
     {{{0.625, 1.375}, {0.089, 1.911}, {0.625, 1.375}, {0.010, 1.990}}}},
    {{"cat", "milk", "it", "hungry"},
     {2, 2, 0, 0, 1, 3, 0, 0, 2, 2, 0, 0, 4, 0, 0, 0},
     {{{1.125, 0.875}, {0.609, 1.391}, {1.125, 0.875}, {1.999, 0.001}}}},
}};

// softmax(factor x x^T), [kWords, kWords]: how each word divides its attention.
Var attention_weights(Var x, Real factor) {
  return softmax(scale(matrix_product(x, transpose(x, 0, 1)), factor));
}

// How "it" divides its attention when the words are `x`.
void print_weights(const char* when, const Sentence& sentence, Var x) {
  const auto row = attention_weights(x, Real{0.5}).value().subspan(2 * kWords, kWords);
  std::printf("  %-7s it attends to", when);
  for (std::size_t i = 0; i < kWords; ++i)
    std::printf("  %s %.3f", sentence.words[i], static_cast<double>(row[i]));
  const auto [least, most] = std::ranges::minmax(row);
  const char* best =
      sentence.words[static_cast<std::size_t>(std::ranges::max_element(row) - row.begin())];
  if (most - least < Real{1e-6}) {
    std::printf(": to all alike\n");
  } else {
    std::printf(": most to %s, and to %s rather than %s\n", best, row[0] > row[1] ? "cat" : "milk",
                row[0] > row[1] ? "milk" : "cat");
  }
}

void show(const Sentence& sentence) {
  Tape tape;
  const Var x = tape.constant({kWords, kWidth}, sentence.vectors);
  // softmax(Q K^T / sqrt(4)) V, and softmax(Q K^T) V / sqrt(4)
  const Var right = matrix_product(attention_weights(x, Real{0.5}), x);
  const Var wrong = scale(matrix_product(attention_weights(x, Real{1}), x), Real{0.5});
  std::printf("%s, %s, %s, %s\n", sentence.words[0], sentence.words[1], sentence.words[2],
              sentence.words[3]);
  std::printf("  %-7s %-14s %-14s %s\n", "", "published", "true", "softmax(QK^T)V/sqrt(d)");
  for (std::size_t i = 0; i < kWords; ++i) {
    const auto at = [&](Var v, std::size_t column) {
      return static_cast<double>(v.value()[i * kWidth + column]);
    };
    std::printf("  %-7s %.3f  %.3f   %.3f  %.3f   %.3f  %.3f\n", sentence.words[i],
                sentence.published[i][0], sentence.published[i][1], at(right, 0), at(right, 1),
                at(wrong, 0), at(wrong, 1));
  }
  print_weights("before", sentence, x);
  print_weights("after", sentence, right);
  std::printf("\n");
}

}  // namespace

int main() {
  std::printf(
      "Self-attention softmax(QK^T/sqrt(d))V with Q = K = V and d = 4, first two columns.\n\n");
  for (const Sentence& sentence : kSentences) show(sentence);
  std::printf(
      "The published rows are those of the last column: the scores went through the softmax as "
      "they\n"
      "were, and the result was divided by sqrt(d). Dividing there does not soften the softmax, it "
      "only\n"
      "halves the output: the published rows add up to 2, rows of weights over these vectors to "
      "4.\n"
      "Before attention \"it\" is the same vector as \"cat\"; after it, \"it\" has moved towards "
      "milk in one\n"
      "sentence and towards cat in the other.\n");
}
