#include "models/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/base/error.h"
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

TEST(SampleToken, AtTemperatureZeroOrTinyOnesIsTheLikeliest) {
  const std::array<Real, 5> logits = {0, Real{2.1}, Real{-1.5}, Real{2.2}, Real{0.7}};
  for (const double temperature : {0.0, 1e-9, 1e-300})
    EXPECT_EQ(frequencies(logits, {.temperature = temperature})[3], 1.0) << temperature;
}

TEST(SampleToken, SurvivesLogitsThatExpWouldOverflowAndNeverDrawsWhatIsImpossible) {
  const Real never = -std::numeric_limits<Real>::infinity();
  for (const std::array<Real, 4>& logits :
       {std::array<Real, 4>{-1000, 1000, -1000, 1000}, {never, 0, never, 0}}) {
    const std::vector<double> drawn = frequencies(logits, {});
    EXPECT_NEAR(drawn[1], 0.5, 0.02);
    EXPECT_EQ(drawn[0] + drawn[2], 0);
  }
}

TEST(SampleToken, DependsOnSeedAndPositionAlone) {
  const std::vector<Real> logits(1000, Real{0});
  const SamplingOptions options{.seed = 9};
  EXPECT_EQ(sample_token(logits, options, 5), sample_token(logits, options, 5));
  EXPECT_NE(sample_token(logits, options, 5), sample_token(logits, options, 6));
  EXPECT_NE(sample_token(logits, options, 5), sample_token(logits, {.seed = 10}, 5));
}

TEST(SampleToken, KeepsTheKLikeliest) {
  const std::array<Real, 4> logits = {1, 2, 3, 2.5};
  const std::vector<double> drawn = frequencies(logits, {.top_k = 2});
  EXPECT_EQ(drawn[0] + drawn[1], 0);
  EXPECT_NEAR(drawn[3] / drawn[2], std::exp(-0.5), 0.03);
}

TEST(SampleToken, KeepsTheNucleus) {
  // Probabilities 0.5, 0.25, 0.15, 0.1: the first two reach 0.7, the first alone 0.5.
  const std::array<Real, 4> logits = {Real(std::log(0.5)), Real(std::log(0.25)),
                                      Real(std::log(0.15)), Real(std::log(0.1))};
  const std::vector<double> most = frequencies(logits, {.top_p = 0.7});
  EXPECT_NEAR(most[0], 2.0 / 3, 0.02);
  EXPECT_EQ(most[2] + most[3], 0);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.4})[0], 1);
  EXPECT_EQ(frequencies(logits, {.top_p = 0})[0], 1);
  const std::array<Real, 2> equal = {0, 0};
  EXPECT_EQ(frequencies(equal, {.top_p = 0.5})[0], 1) << "the first alone reaches a half";
}

TEST(SampleToken, DropsWhatIsFarBelowTheLikeliest) {
  const std::array<Real, 3> logits = {0, Real(std::log(0.3)), Real(std::log(0.1))};
  const std::vector<double> drawn = frequencies(logits, {.min_p = 0.2});
  EXPECT_NEAR(drawn[1], 0.3 / 1.3, 0.02);
  EXPECT_EQ(drawn[2], 0);
  const std::array<Real, 2> at_the_border = {0, -1};
  volatile const double lower = -1;  // its exponential is computed as that of a logit
  EXPECT_GT(frequencies(at_the_border, {.min_p = std::exp(lower)})[1], 0);
}

class SampledText : public testing::Test {
 protected:
  static LanguageModel model_with(Index context) {
    const nlohmann::json settings = {{"layers", 1}, {"dim", 16}, {"context", context}};
    LanguageModel model(resolve_model(Given(model_settings(), settings)), 11);
    draw_weights(model.parameters());  // far from uniform
    return model;
  }
  LanguageModel model_ = model_with(6);
};

GenerationOptions likeliest(Index tokens) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.tokens = tokens;
  return options;
}

TEST_F(SampledText, OfManySequencesEqualsEachAloneWithAndWithoutCache) {
  GenerationOptions options;
  options.tokens = 40;  // the context of 6 slides many times
  const auto alone = generate(model_, Tokens{1, 2}, options).texts;
  options.decode.sequences = 3;
  const auto three = generate(model_, Tokens{1, 2}, options).texts;
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0], alone[0]);
  EXPECT_NE(three[1], three[0]);
  options.cache = false;
  EXPECT_EQ(generate(model_, Tokens{1, 2}, options).texts, three);
}

TEST_F(SampledText, StopsAtTheContextIfAsked) {
  GenerationOptions options = likeliest(40);
  options.slide = false;
  // Six tokens fit; what follows the sixth is still predicted.
  EXPECT_EQ(generate(model_, Tokens{1, 2}, options).texts[0].size(), 5u);
  EXPECT_EQ(generate(model_, Tokens(6, 1), options).texts[0].size(), 1u);
  EXPECT_THROW(generate(model_, Tokens(7, 1), options), ShapeError);
  EXPECT_THROW(generate(model_, Tokens{}, options), ShapeError);
}

TEST_F(SampledText, EndsWithTheFirstStopThatItReaches) {
  GenerationOptions options;
  options.tokens = 25;  // the context of 6 slides
  options.decode.sequences = 3;
  const auto whole = generate(model_, Tokens{1, 2}, options).texts;
  // One stop of each of the first two texts; the third has neither and goes on.
  options.stops = {{whole[0].begin() + 5, whole[0].begin() + 9},
                   {whole[1].begin() + 13, whole[1].begin() + 17}};
  for (const bool cache : {true, false}) {
    options.cache = cache;
    std::vector<Tokens> streamed(3);
    const auto texts = generate(model_, Tokens{1, 2}, options, [&](Index text, std::int32_t token) {
                         streamed[static_cast<std::size_t>(text)].push_back(token);
                       }).texts;
    EXPECT_EQ(streamed, texts);
    for (std::size_t i = 0; i < 3; ++i) {
      std::size_t end = 1;
      while (end < 25 && !is_stopped(std::span(whole[i]).first(end), options.stops)) ++end;
      EXPECT_TRUE(std::ranges::equal(texts[i], std::span(whole[i]).first(end))) << i;
    }
    EXPECT_LT(texts[0].size(), 25u);
    EXPECT_LT(texts[1].size(), 25u);
    EXPECT_EQ(texts[2].size(), 25u);
  }
}

TEST_F(SampledText, SlidesToTheNewerHalfOfAnOddContextAndTheTokenInTheMiddle) {
  const LanguageModel model = model_with(5);
  for (std::int32_t first = 0; first < 11; ++first) {
    Tokens text = {first, 2};
    const Tokens more = generate(model, text, likeliest(5)).texts[0];
    text.insert(text.end(), more.begin(), more.begin() + 4);  // one more than fits
    EXPECT_EQ(generate(model, std::span(text).last(3), likeliest(1)).texts[0][0], more[4]) << first;
  }
}

TEST_F(SampledText, OfALongPromptFollowsItsLastContext) {
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto from_all = generate(model_, prompt, likeliest(1)).texts;
  EXPECT_EQ(generate(model_, std::span(prompt).last(6), likeliest(1)).texts, from_all);
}

}  // namespace
}  // namespace headcount
