#include "models/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/random_weights.h"

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Index kDraws = 20000;

std::vector<double> frequencies(std::span<const Real> logits, const SamplingOptions& options) {
  std::vector<double> counts(logits.size());
  for (Index i = 0; i < kDraws; ++i) {
    counts[static_cast<std::size_t>(sample_token(logits, options, i))] += 1;
  }
  for (double& count : counts) count /= kDraws;
  return counts;
}

// Softmax of the logits over the temperature, within five standard errors.
void expect_softmax(std::span<const Real> logits, double temperature) {
  const std::vector<double> drawn = frequencies(logits, {.temperature = temperature, .seed = 3});
  double total = 0;
  for (const Real x : logits) total += std::exp(static_cast<double>(x) / temperature);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp(static_cast<double>(logits[i]) / temperature) / total;
    EXPECT_NEAR(drawn[i], p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i << " at " << temperature;
  }
}

TEST(SampleToken, FollowsTheSoftmaxAtEachTemperature) {
  const std::array<Real, 5> logits = {0, Real{0.7}, Real{-1.5}, Real{2}, Real{0.7}};
  for (const double temperature : {0.5, 1.0, 2.0}) expect_softmax(logits, temperature);
}

TEST(SampleToken, AtTemperatureZeroIsTheLikeliestForAnySeed) {
  const std::array<Real, 5> logits = {0, Real{2.1}, Real{-1.5}, Real{2.2}, Real{0.7}};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sample_token(logits, {.temperature = 0, .seed = seed}, 4), 3);
  }
}

TEST(SampleToken, AtTinyTemperatureIsTheLikeliest) {
  const std::array<Real, 3> logits = {1, 3, 2};
  EXPECT_EQ(frequencies(logits, {.temperature = 1e-9})[1], 1.0);
  EXPECT_EQ(frequencies(logits, {.temperature = 1e-300})[1], 1.0);
}

TEST(SampleToken, SurvivesLogitsThatExpWouldOverflow) {
  const std::array<Real, 3> logits = {1000, 1000, -1000};
  const std::vector<double> drawn = frequencies(logits, {});
  EXPECT_NEAR(drawn[0], 0.5, 0.02);
  EXPECT_EQ(drawn[2], 0);
}

TEST(SampleToken, NeverDrawsWhatIsImpossible) {
  const Real never = -std::numeric_limits<Real>::infinity();
  const std::array<Real, 4> logits = {never, 0, never, 0};
  const std::vector<double> drawn = frequencies(logits, {});
  EXPECT_EQ(drawn[0], 0);
  EXPECT_EQ(drawn[2], 0);
}

TEST(SampleToken, DependsOnSeedAndPositionAlone) {
  const std::vector<Real> logits(1000, Real{0});
  const SamplingOptions options{.seed = 9};
  EXPECT_EQ(sample_token(logits, options, 5), sample_token(logits, options, 5));
  EXPECT_NE(sample_token(logits, options, 5), sample_token(logits, options, 6));
  EXPECT_NE(sample_token(logits, options, 5), sample_token(logits, {.seed = 10}, 5));
}

class SampledText : public testing::Test {
 protected:
  SampledText() : model_(config(), 11) {
    draw_weights(model_.parameters());  // far from uniform
  }
  static ModelConfig config() {
    ModelConfig config;
    config.layers = 1;
    config.dim = 16;
    config.context = 6;
    return config;
  }
  LanguageModel model_;
};

TEST_F(SampledText, ContinuesThePrompt) {
  const Tokens prompt = {1, 2, 3};
  const Tokens text = sample_tokens(model_, prompt, 20, {});
  ASSERT_EQ(text.size(), 23u);
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), text.begin()));
  EXPECT_TRUE(std::ranges::all_of(text, [](std::int32_t t) { return t >= 0 && t < 11; }));
  EXPECT_EQ(sample_tokens(model_, prompt, 0, {}), prompt);
}

TEST_F(SampledText, IsTheSameForTheSameSeed) {
  const SamplingOptions options{.temperature = 1, .seed = 4};
  const Tokens text = sample_tokens(model_, {1}, 30, options);
  EXPECT_EQ(sample_tokens(model_, {1}, 30, options), text);
  EXPECT_NE(sample_tokens(model_, {1}, 30, {.temperature = 1, .seed = 5}), text);
}

TEST_F(SampledText, AtTemperatureZeroTakesTheLikeliestTokenAfterTheLastContext) {
  const Tokens text = sample_tokens(model_, {1, 2}, 20, {.temperature = 0, .seed = 4});
  EXPECT_EQ(sample_tokens(model_, {1, 2}, 20, {.temperature = 0, .seed = 5}), text);
  for (std::size_t i = 2; i < text.size(); ++i) {
    const std::size_t seen = std::min<std::size_t>(i, 6);
    Tape tape(model_.parameters());
    const Var logits = model_.logits(tape, std::span(text).subspan(i - seen, seen), 1);
    const auto last = logits.value().last(11);
    EXPECT_EQ(text[i], std::ranges::max_element(last) - last.begin()) << i;
  }
}

}  // namespace
}  // namespace headcount
