#include "train/options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/built_in.h"
#include "models/language_model.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

TrainOptions resolved(const json& values) {
  return resolve_training(Given(training_settings(), values));
}

// nanoGPT's two character-level configurations: config/train_shakespeare_char.py for a GPU, and the
// command of its README for a CPU.
TEST(Presets, AreNanoGptsTwoCharacterConfigurations) {
  const json both = R"({"norm": "layer", "activation": "gelu", "positions": "learned",
      "tie-embeddings": "on", "bias": "off", "attention": "mha", "norm-epsilon": 1e-5,
      "lr": 1e-3, "min-lr": 1e-4, "warmup": 100, "beta1": 0.9, "beta2": 0.99,
      "weight-decay": 0.1, "grad-clip": 1.0, "accumulate": 1})"_json;
  const json cpu = R"({"layers": 4, "heads": 4, "dim": 128, "context": 64, "batch": 12,
      "dropout": 0.0, "steps": 2000, "ffn-dim": 512})"_json;
  const json gpu = R"({"layers": 6, "heads": 6, "dim": 384, "context": 256, "batch": 64,
      "dropout": 0.2, "steps": 5000, "ffn-dim": 1536})"_json;
  for (const auto& [name, own] : {std::pair{"nanogpt-cpu", cpu}, {"nanogpt-gpu", gpu}}) {
    json expected = to_json(resolved(preset(name).settings));
    const json values = expected;
    expected.update(both);
    expected.update(own);
    EXPECT_EQ(values, expected) << name;
  }
}

TEST(Presets, HaveThePublishedNumbersOfParametersAndForTinyShakespeareNotMany) {
  const auto count = [](const std::string& name) {
    return LanguageModel(resolved(preset(name).settings).model, 65).parameters().element_count();
  };
  EXPECT_EQ(count("nanogpt-cpu"), 804096);
  // 10.7 M with the position table: (65 + 256) 384 + 6 (12 384^2 + 2 384) + 384
  EXPECT_EQ(count("nanogpt-gpu"), 10745088);
  EXPECT_LE(count("shakespeare"), 1.01 * 804096);
  EXPECT_LE(count("shakespeare-10m"), 10745088);
}

// Presets, and defaults of a text, hold for every attention by changing one setting, also score
// scales, which have no effect on a state.
TEST(Presets, AndDefaultsOfTextsFitEveryAttention) {
  std::vector<json> all;
  for (const Preset& each : presets()) all.push_back(each.settings);
  for (const BuiltInCorpus* corpus : built_in_corpora()) all.push_back(data_defaults(corpus->name));
  for (json& values : all) {
    for (const AttentionKind* kind : attention_kinds()) {
      json changed = values;
      changed["attention"] = kind->name;
      EXPECT_EQ(message_of([&] { resolved(changed); }), "no error") << changed;
    }
  }
}

TEST(TrainSettings, AtZeroAreNotInRecordsOfRunsThatTheyWouldNotChange) {
  for (const std::string setting : {"shards", "eval-characters"}) {
    EXPECT_FALSE(to_json(resolved({{setting, 0}})).contains(setting));
    EXPECT_TRUE(to_json(resolved({{setting, 1000}, {"batch", 1000}})).contains(setting));
  }
  for (const auto& [data, has] : {std::pair{"tales", false}, {"lookup", true}, {"x.txt", false}})
    EXPECT_EQ(to_json(resolved({{"data", data}})).contains("directions"), has) << data;
  EXPECT_EQ(resolved({{"data", "lookup"}, {"directions", 5}}).corpus.own.values()["directions"], 5);
}

TEST(TrainSettings, RoundTripThroughJson) {
  for (const json& values :
       {json{{"attention", "mla"}, {"data", "some/file.txt"}, {"seed", 18446744073709551615u}},
        json{{"data", "lookup"}, {"directions", 3}, {"warmup", 0}, {"lr", 0.3}},
        json{{"data", "mqar"}, {"pairs", 8}, {"fill", "dots"}, {"eval-every", 0}}}) {
    const auto written = to_json(resolved(values));
    EXPECT_EQ(to_json(resolved(json::parse(written.dump()))), written);
    for (const auto& [name, value] : values.items())
      EXPECT_EQ(written.at(name).dump(), value.dump()) << name;
  }
}

TEST(TrainSettings, OfRecordsHaveTodaysNames) {
  EXPECT_EQ(recorded_settings({{"data", "lookup"}, {"kinds", 3}}),
            json({{"data", "lookup"}, {"directions", 3}}));
}

TEST(TrainSettings, LeastLearningRateIsATenthUnlessGiven) {
  EXPECT_DOUBLE_EQ(resolved({{"lr", 0.05}}).least_learning_rate, 0.005);
  EXPECT_EQ(resolved({{"lr", 0.05}, {"min-lr", 0}}).least_learning_rate, 0);
}

TEST(TrainSettings, SayWhenARunHasLearned) {
  Evaluation evaluation;
  evaluation.loss = 0.5;
  evaluation.answer_accuracy = 0.95;
  for (const auto& [setting, value, learned] : {std::tuple{"stop-at-answers", 95.0, true},
                                                {"stop-at-answers", 95.1, false},
                                                {"stop-at-loss", 0.51, true},
                                                {"stop-at-loss", 0.5, false},
                                                {"stop-at-loss", 0.0, false}})
    EXPECT_EQ(resolved({{"data", "tales"}, {setting, value}}).learned(evaluation), learned)
        << setting << " " << value;
  // In the worst direction 95 % are right.
  evaluation.answer_accuracy = 0.99;
  evaluation.answers_by_direction = {{0, 100, 100}, {2, 20, 19}, {5, 100, 100}};
  for (const auto& [percent, learned] : {std::pair{95, true}, {96, false}})
    EXPECT_EQ(resolved({{"data", "lookup"}, {"stop-at-answers", percent}}).learned(evaluation),
              learned);
}

TEST(TrainSettings, ShortenAWarmUpThatIsLongerThanTheRunToATenthOfIt) {
  const TrainOptions shortened = resolved({{"warmup", 51}, {"steps", 50}});
  json saved = to_json(shortened);
  EXPECT_EQ(resolved(saved).schedule().warmup, 5) << "a run that is resumed";
  saved["steps"] = 500;
  EXPECT_EQ(resolved(saved).schedule().warmup, 51) << "a run that is made longer";
  const TrainOptions whole = resolved({{"warmup", 50}, {"steps", 50}});
  EXPECT_EQ(whole.schedule().warmup, 50);
  EXPECT_EQ(warmup_note(whole),
            "the warm-up takes all 50 steps, so that the learning rate never decays; shorten it");
  EXPECT_EQ(warmup_note(resolved({{"warmup", 49}, {"steps", 50}})), "");
}

}  // namespace
}  // namespace headcount
