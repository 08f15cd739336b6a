// --score-scale: its words, and what it does to the entropy of the attention rows.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nn/attention/kinds_with_scores.h"
#include "nn/attention/random_weights.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

// Row t is then uniform over its t + 1 keys, and the pooled rows of the blocks that are complete.
TEST(EntropyOfAttention, OfAVanishingScaleIsThatOfUniformRows) {
  constexpr Index kContext = 12;
  for (const AttentionKind* kind : kinds_with_scores()) {
    if (kind->name == "fox") continue;  // whose gates stay
    const TrainOptions options = tiny_options(
        {{"heads", 4}, {"context", kContext}, {"attention", kind->name}, {"score-scale", "1e-9"}});
    const AttentionPlan& layer = options.model->cycle.front();
    const auto picked = [&](Index rows) {
      const auto of = [&](const char* name, Index none) {
        return layer.values().value(name, none);
      };
      return std::min(rows, of("index-topk", rows) * of("index-block", 1));
    };
    double expected = 0;
    for (Index t = 0; t < kContext; ++t) {
      const Index keys = pools(*kind)
                             ? t + 1 + picked((t + 1) / layer.values().at("compress").get<Index>())
                             : picked(t + 1);
      expected += std::log(static_cast<double>(keys)) / static_cast<double>(kContext);
    }
    LanguageModel model = tiny_model(options);
    draw_weights(model.parameters());
    const Evaluation evaluation =
        evaluate(model, tiny_tokens(20 * kContext + 1), {.attention_stats = true});
    EXPECT_NEAR(evaluation.attention_entropy.value(), expected, 1e-5) << kind->name;
  }
}

TEST(ScoreScaleText, ThatIsNoScaleIsAnError) {
  for (const char* const text : {"", "abc", "-1", "0", "-0", "nan", "inf", "1e999", "1e-999", " 1",
                                 "1 ", "0,3", "NONE", "inv-sqrt "})
    EXPECT_THROW(ScoreScale::parse(text), ShapeError) << "'" << text << "'";
}

RC_GTEST_PROP(ScoreScaleText, OfANumberRoundTripsToTheLastBit, ()) {
  const double mantissa = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 53);
  const ScoreScale scale = {
      ScoreScale::Kind::number,
      std::ldexp(mantissa, *rc::gen::inRange(-120, 900))};  // not 0 in single precision
  RC_ASSERT(ScoreScale::parse(scale.text()) == scale);
}

}  // namespace
}  // namespace headcount
