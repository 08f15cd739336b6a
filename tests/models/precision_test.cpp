// Models whose products read bfloat16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/decoding.h"
#include "nn/attention/kinds_with_scores.h"

namespace headcount::decoding {
namespace {

double relative_difference(std::span<const Real> a, std::span<const Real> b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += std::pow(static_cast<double>(a[i] - b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

class ModelInBf16 : public testing::TestWithParam<const AttentionKind*> {
 protected:
  static constexpr Index kLength = 72;  // attention rounds, too, from 64 tokens on

  ModelInBf16() {
    model_.initialize(1);
    // Weights large enough for attention to matter.
    for (Real& value : model_.parameters().all_values()) value *= 2;
  }
  // Logits of three texts, and gradients.
  std::pair<Values, Values> pass(Precision precision) {
    constexpr Index kTokens = 3 * kLength;
    const std::vector<std::int32_t> tokens = some_tokens(kTokens + 1);
    ParameterStore& parameters = model_.parameters();
    parameters.set_precision(precision);
    Tape tape(&parameters);
    parameters.clear_gradients();
    const Var logits = model_.logits(tape, std::span(tokens).first(kTokens), 3);
    Values before = copy(logits.value());
    tape.backward(cross_entropy(logits, std::span(tokens).last(kTokens)));
    return {std::move(before), copy(parameters.complete_gradients())};
  }

  LanguageModel model_{
      resolve_model(Given(
          model_settings(),
          {{"attention", GetParam()->name}, {"layers", 2}, {"dim", 48}, {"context", kLength}})),
      kVocabulary};
};
INSTANTIATE_TEST_SUITE_P(Attentions, ModelInBf16, testing::ValuesIn(attention_kinds()), name_of);

TEST_P(ModelInBf16, IsNearTheModelInF32WithItsGradients) {
  const auto [exact, exact_gradients] = pass(Precision::f32);
  const auto [near, gradients] = pass(Precision::bf16);
  EXPECT_GT(relative_difference(near, exact), 1e-4) << "nothing was rounded";
  EXPECT_LT(relative_difference(near, exact), 0.03);
  EXPECT_LT(relative_difference(gradients, exact_gradients), 0.05);
}

TEST_P(ModelInBf16, ComputesTheSameBitsFromWeightsThatAreRoundedOnce) {
  const auto [logits, gradients] = pass(Precision::bf16);
  const ParameterStore::Rounded rounded(model_.parameters());
  ASSERT_NE(model_.parameters().rounded({0}), nullptr);
  EXPECT_EQ(pass(Precision::bf16), std::pair(logits, gradients));
}

// A pass over one token reads weights and its own numbers as they are; one over many rounds both.
TEST_P(ModelInBf16, DecodesTokensAsInF32) {
  const auto decoded = [&](Precision precision) {
    model_.parameters().set_precision(precision);
    return decode(model_, some_tokens(kLength), {}, std::vector<Index>(kLength, 1));
  };
  EXPECT_EQ(decoded(Precision::bf16), decoded(Precision::f32));
}

}  // namespace
}  // namespace headcount::decoding
