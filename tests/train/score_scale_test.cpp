// --score-scale: its words, and what it does to the entropy of the attention rows.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "nn/kinds_with_scores.h"
#include "nn/random_weights.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Index kScaleVocabulary = 3, kScaleContext = 12;

// abacabac...: what follows an a is clear only from what came before it.
Tokens repetitive_text(Index count) {
  constexpr std::array<std::int32_t, 4> kPeriod = {0, 1, 0, 2};
  Tokens tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(kPeriod[static_cast<std::size_t>(i % 4)]);
  return tokens;
}

TrainOptions options_with(std::string_view attention, const std::string& score_scale) {
  return resolve_training(Given(training_settings(), {{"layers", 1},
                                                      {"dim", 16},
                                                      {"heads", 4},
                                                      {"context", kScaleContext},
                                                      {"attention", attention},
                                                      {"score-scale", score_scale}}));
}

class EntropyOfAttention : public testing::TestWithParam<const AttentionKind*> {
 protected:
  // Entropy of attention in a one-layer model with large random weights, equal for every scale.
  static double with_scale(const std::string& score_scale) {
    const TrainOptions options = options_with(GetParam()->name, score_scale);
    LanguageModel model(options.model, kScaleVocabulary);
    draw_weights(model.parameters());
    // Forget gates would add to the scores: gates of 1 do not.
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const std::string& name = model.parameters().name({i});
      if (name.find(".f_proj.") == std::string::npos) continue;
      std::ranges::fill(model.parameters().value({i}), name.ends_with("bias") ? Real{40} : Real{0});
    }
    return *evaluate(model, repetitive_text(20 * kScaleContext + 1), {.attention_stats = true})
                .attention_entropy;
  }
};
INSTANTIATE_TEST_SUITE_P(Registry, EntropyOfAttention, testing::ValuesIn(kinds_with_scores()),
                         name_of);

// Row t is then uniform over its t + 1 keys, and the pooled rows of the blocks that are complete.
TEST_P(EntropyOfAttention, OfAVanishingScaleIsThatOfUniformRows) {
  const TrainOptions options = options_with(GetParam()->name, "none");
  const AttentionPlan& layer = options.model->cycle.front();
  const bool pools = layer.has("compress");
  const auto picked = [&](Index rows) {
    return layer.has("index-topk") ? std::min(rows, layer.whole("index-topk")) : rows;
  };
  double expected = 0;
  for (Index t = 0; t < kScaleContext; ++t) {
    const Index keys = pools ? t + 1 + picked((t + 1) / layer.whole("compress")) : picked(t + 1);
    expected += std::log(static_cast<double>(keys)) / static_cast<double>(kScaleContext);
  }
  EXPECT_NEAR(with_scale("1e-9"), expected, 1e-5);
}

TEST(ScoreScaleText, ThatIsNoScaleIsAnError) {
  for (const char* const text : {"", "abc", "-1", "0", "-0", "nan", "inf", "1e999", "1e-999", " 1",
                                 "1 ", "0,3", "NONE", "inv-sqrt "}) {
    EXPECT_THROW(ScoreScale::parse(text), ShapeError) << "'" << text << "'";
  }
}

TEST(ScoreScaleText, OfANameRoundTrips) {
  using Kind = ScoreScale::Kind;
  for (const auto& [text, kind] : {std::pair{"inv-sqrt", Kind::inverse_sqrt},
                                   {"none", Kind::none},
                                   {"qk-norm", Kind::qk_norm},
                                   {"row-norm", Kind::row_norm},
                                   {"length", Kind::length}}) {
    EXPECT_EQ(ScoreScale::parse(text).kind, kind) << text;
    EXPECT_EQ(ScoreScale::parse(text).text(), text);
  }
}

RC_GTEST_PROP(ScoreScaleText, OfANumberRoundTripsToTheLastBit, ()) {
  const double mantissa = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 53);
  const ScoreScale scale = {ScoreScale::Kind::number,
                            std::ldexp(mantissa, *rc::gen::inRange(-1000, 900))};
  RC_ASSERT(ScoreScale::parse(scale.text()) == scale);
}

}  // namespace
}  // namespace headcount
