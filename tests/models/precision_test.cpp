// Models whose products read bfloat16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/random.h"
#include "models/decoder.h"
#include "nn/kinds_with_scores.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 20, kSequences = 3, kContext = 40;

ModelPlan plan_of(std::string_view attention) {
  return resolve_model(
      Given(model_settings(),
            {{"attention", attention}, {"layers", 2}, {"dim", 48}, {"context", kContext}}));
}

std::vector<std::int32_t> random_tokens(std::uint32_t stream, Index count) {
  std::vector<std::int32_t> tokens;
  for (Index i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(
        random_below({6, stream, 0}, static_cast<std::uint64_t>(i), kVocabulary)));
  return tokens;
}

std::vector<Real> all(std::span<const Real> values) { return {values.begin(), values.end()}; }

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
  ModelInBf16() : model_(plan_of(GetParam()->name), kVocabulary) {
    model_.initialize(1);
    // Weights large enough for attention to matter.
    for (Real& value : model_.parameters().all_values()) value *= 2;
  }
  // Logits and gradients.
  std::pair<std::vector<Real>, std::vector<Real>> pass(Precision precision) {
    ParameterStore& parameters = model_.parameters();
    parameters.set_precision(precision);
    constexpr Index kTokens = kSequences * kContext;
    Tape tape(&parameters);
    parameters.clear_gradients();
    const Var logits = model_.logits(tape, random_tokens(1, kTokens), kSequences);
    std::vector<Real> before = all(logits.value());
    tape.backward(cross_entropy(logits, random_tokens(2, kTokens)));
    return {std::move(before), all(parameters.complete_gradients())};
  }

  LanguageModel model_;
};
INSTANTIATE_TEST_SUITE_P(Attentions, ModelInBf16, testing::ValuesIn(attention_kinds()), name_of);

TEST_P(ModelInBf16, IsNearTheModelInF32WithItsGradients) {
  const auto [exact, exact_gradients] = pass(Precision::f32);
  const auto [near, gradients] = pass(Precision::bf16);
  EXPECT_GT(relative_difference(near, exact), 1e-4) << "nothing was rounded";
  EXPECT_LT(relative_difference(near, exact), 0.03);
  EXPECT_LT(relative_difference(gradients, exact_gradients), 0.05);
}

// A pass over one token reads weights and its own numbers as they are; one over many rounds both.
TEST_P(ModelInBf16, DecodesTokensAsInF32) {
  const std::vector<std::int32_t> tokens = random_tokens(3, kContext);
  const auto decoded = [&](Precision precision) {
    model_.parameters().set_precision(precision);
    Decoder decoder(model_, {});
    std::vector<Real> all_logits;
    for (const std::int32_t token : tokens) {
      const auto logits = decoder.feed(std::span(&token, 1));
      all_logits.insert(all_logits.end(), logits.begin(), logits.end());
    }
    return all_logits;
  };
  const std::vector<Real> exact = decoded(Precision::f32), near = decoded(Precision::bf16);
  EXPECT_EQ(near, exact);
}

}  // namespace
}  // namespace headcount
