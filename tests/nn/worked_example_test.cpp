// The sentences of nn/examples/it_refers_to.cpp: what a blog prints for their self-attention, what
// it truly is, and what "it" attends to.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/ops.h"

namespace headcount {
namespace {

constexpr Index kWords = 4, kWidth = 4;
constexpr std::size_t kCat = 0, kMilk = 1, kIt = 2, kLast = 3;
constexpr Real kInverseSqrt = Real{0.5};  // 1 / sqrt(4)
constexpr double kThreeDecimals = 0.0005 + 1e-6;

using Row = std::array<double, 2>;  // the columns that are not zero for all words

struct Sentence {
  std::string name;
  std::vector<Real> words;  // cat, milk, it, and sweet or hungry
  std::array<Row, kWords> truth, published;
};

const std::array<Sentence, 2> kSentences = {{
    {"sweet",
     {2, 2, 0, 0, 1, 3, 0, 0, 2, 2, 0, 0, 0, 4, 0, 0},
     {{{1.250, 2.750}, {0.555, 3.445}, {1.250, 2.750}, {0.178, 3.822}}},
     {{{0.625, 1.375}, {0.089, 1.911}, {0.625, 1.375}, {0.010, 1.990}}}},
    {"hungry",
     {2, 2, 0, 0, 1, 3, 0, 0, 2, 2, 0, 0, 4, 0, 0, 0},
     {{{2.250, 1.750}, {1.496, 2.504}, {2.250, 1.750}, {3.922, 0.078}}},
     {{{1.125, 0.875}, {0.609, 1.391}, {1.125, 0.875}, {1.999, 0.001}}}},
}};

class WorkedExample : public testing::TestWithParam<Sentence> {
 protected:
  Var words() { return tape_.constant({kWords, kWidth}, GetParam().words); }
  // softmax(factor x x^T) x by the fused op.
  Var attend(Var x, Real factor) {
    const Var heads = reshape(x, {1, kWords, 1, kWidth});
    return reshape(attention(heads, heads, heads, {.scale = factor, .causal = false}),
                   {kWords, kWidth});
  }
  // How "it" divides its attention among words `x`.
  std::array<double, kWords> attention_of_it(Var x) {
    const Var weights = softmax(scale(matrix_product(x, transpose(x, 0, 1)), kInverseSqrt));
    std::array<double, kWords> row;
    std::ranges::copy(weights.value().subspan(kIt * kWords, kWords), row.begin());
    return row;
  }
  static void expect_rows(Var y, const std::array<Row, kWords>& expected) {
    for (std::size_t word = 0; word < kWords; ++word) {
      for (std::size_t column = 0; column < kWidth; ++column) {
        const double value = column < 2 ? expected[word][column] : 0;
        EXPECT_NEAR(static_cast<double>(y.value()[word * kWidth + column]), value, kThreeDecimals)
            << "word " << word << ", column " << column;
      }
    }
  }

  Tape tape_;
};
INSTANTIATE_TEST_SUITE_P(It, WorkedExample, testing::ValuesIn(kSentences),
                         [](const auto& sentence) { return sentence.param.name; });

TEST_P(WorkedExample, TrueRowsAreThoseOfTheReference) {
  expect_rows(attend(words(), kInverseSqrt), GetParam().truth);
}

TEST_P(WorkedExample, PublishedRowsDivideAfterTheSoftmax) {
  expect_rows(scale(attend(words(), 1), kInverseSqrt), GetParam().published);
}

// Elements of each word's vector add up to 4, and so do those of any average of them; the published
// rows add up to 2 and cannot be such averages.
TEST_P(WorkedExample, PublishedRowsAreNoAveragesOfTheWords) {
  const auto y = attend(words(), kInverseSqrt).value();
  for (std::size_t word = 0; word < kWords; ++word) {
    EXPECT_NEAR(static_cast<double>(y[word * kWidth] + y[word * kWidth + 1]), 4, 1e-5);
    EXPECT_NEAR(GetParam().published[word][0] + GetParam().published[word][1], 2, 1e-9);
  }
}

TEST_P(WorkedExample, BeforeAttentionItAttendsToAllWordsAlike) {
  for (const double weight : attention_of_it(words())) EXPECT_NEAR(weight, 0.25, 1e-6);
}

TEST_P(WorkedExample, AfterAttentionItTellsMilkFromCat) {
  const auto weights = attention_of_it(attend(words(), kInverseSqrt));
  const double milk_over_cat = weights[kMilk] - weights[kCat];
  if (GetParam().name == "sweet") {
    EXPECT_GT(milk_over_cat, 0.05);
  } else {
    EXPECT_LT(milk_over_cat, -0.02);
  }
  // Most of all it attends to the word that made the difference, and to cat as to itself.
  EXPECT_EQ(std::ranges::max_element(weights) - weights.begin(), kLast);
  EXPECT_NEAR(weights[kIt], weights[kCat], 1e-6);
}

}  // namespace
}  // namespace headcount
