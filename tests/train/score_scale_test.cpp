// --score-scale: every way to scale scores trains every attention, and what it does to the entropy
// of the attention rows.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "nn/random_weights.h"
#include "train/trainer.h"

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Index kVocabulary = 3, kContext = 12;

// abacabac...: what follows an a is clear only from what came before it.
Tokens repetitive_text(Index count) {
  constexpr std::array<std::int32_t, 4> kPeriod = {0, 1, 0, 2};
  Tokens tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(kPeriod[static_cast<std::size_t>(i % 4)]);
  return tokens;
}

TrainOptions options_with(const nlohmann::json& settings) {
  TrainOptions options;
  options.settings().read({{"layers", 1},
                           {"dim", 16},
                           {"heads", 2},
                           {"context", kContext},
                           {"batch", 8},
                           {"steps", 30},
                           {"warmup", 0},
                           {"lr", 0.03}});
  options.settings().read(settings);
  options.resolve();
  return options;
}

using KindAndScale = std::tuple<const AttentionKind*, std::string>;
class TrainedScoreScale : public testing::TestWithParam<KindAndScale> {};
INSTANTIATE_TEST_SUITE_P(Every, TrainedScoreScale,
                         testing::Combine(testing::ValuesIn(attention_kinds()),
                                          testing::Values("inv-sqrt", "none", "qk-norm", "row-norm",
                                                          "length", "0.3")),
                         [](const auto& param) {
                           std::string name = std::string(std::get<0>(param.param)->name) + "_" +
                                              std::get<1>(param.param);
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST_P(TrainedScoreScale, LearnsWhatOnlyAttentionCanKnow) {
  const auto& [kind, score_scale] = GetParam();
  const TrainOptions options =
      options_with({{"attention", kind->name}, {"score-scale", score_scale}});
  const Tokens tokens = repetitive_text(401);
  LanguageModel model(options.model, kVocabulary);
  model.initialize(options.seed);
  Trainer trainer(model, options, tokens);
  const double before = evaluate(model, tokens).loss;
  for (Index step = 0; step < options.steps; ++step) trainer.step();
  const double after = evaluate(model, tokens).loss;
  std::printf("LOSS %s %s %.4f %.4f\n", kind->name.data(), score_scale.c_str(), before, after);
}

}  // namespace
}  // namespace headcount
