#include "models/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "autograd/base/error.h"
#include "nn/attention/random_weights.h"

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

// Probabilities of tokens, from what remains of each; 0 for what is left out.
struct Draws {
  std::vector<double> logits;
  SamplingOptions options;
  std::vector<double> shares;
};

std::vector<double> logs(std::vector<double> shares) {
  for (double& share : shares) share = std::log(share);
  return shares;
}

// Within five standard errors: what has no share is never drawn.
TEST(SampleToken, IsDrawnWithTheProbabilitiesThatTheOptionsLeave) {
  constexpr Index kDraws = 20000;
  const std::vector<double> some = logs({1, 2, 0.25, 8, 2}), near = {0, 2.1, -1.5, 2.2, 0.7},
                            four = logs({0.5, 0.25, 0.15, 0.1}), low = logs({1, 0.3, 0.1});
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  volatile const double lower = -1;  // its exponential is computed as that of a logit
  for (const auto& [logits, options, shares] :
       {Draws{some, {.temperature = 1}, {1, 2, 0.25, 8, 2}},
        {some, {.temperature = 0.5}, {1, 4, 0.0625, 64, 4}},
        {some, {.temperature = 2}, {1, std::sqrt(2), 0.5, std::sqrt(8), std::sqrt(2)}},
        {near, {.temperature = 0}, {0, 0, 0, 1, 0}},
        {near, {.temperature = 1e-300}, {0, 0, 0, 1, 0}},
        {{-1000, 1000, -1000, 1000}, {}, {0, 1, 0, 1}},  // of which exp overflows
        {{kNever, 0, kNever, 0}, {}, {0, 1, 0, 1}},
        {four, {.top_k = 2}, {2, 1, 0, 0}},
        {four, {.top_p = 0.7}, {2, 1, 0, 0}},
        {four, {.top_p = 0}, {1, 0, 0, 0}},
        {{0, 0}, {.top_p = 0.5}, {1, 0}},  // the first alone reaches a half
        {low, {.min_p = 0.2}, {1, 0.3, 0}},
        {{0, -1}, {.min_p = std::exp(lower)}, {1, std::exp(-1)}}}) {
    const std::vector<Real> reals(logits.begin(), logits.end());
    std::vector<double> drawn(logits.size());
    for (Index i = 0; i < kDraws; ++i)
      drawn[static_cast<std::size_t>(sample_token(reals, options, i))] += 1.0 / kDraws;
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double p = shares[i] / total;
      EXPECT_NEAR(drawn[i], p, 5 * std::sqrt(p * (1 - p) / kDraws) + 1e-9)
          << i << " of " << testing::PrintToString(shares);
    }
  }
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
