#include "bench/decode_timer.h"

#include <gtest/gtest.h>

#include "models/decoder.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 20, kTimedContext = 24;

ModelPlan plan_of(std::string_view kind, Index window) {
  return resolve_model(
      Given(model_settings(),
            {{"layers", 1}, {"dim", 16}, {"attention", kind}, {"heads", 2}, {"window", window}}));
}

TEST(DecodeTimer, TimesTheCacheThatSamplingHas) {
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Index window : {0, 8, 24, 100}) {
      if (window > 0 && !kind->attends) continue;
      const ModelPlan plan = plan_of(kind->name, window);
      LanguageModel model(with_settings(plan, {{"context", kTimedContext}}), kVocabulary);
      model.initialize(1);
      for (const CacheType type : {CacheType::real, CacheType::f16, CacheType::int8}) {
        const DecodeOptions options = {type == CacheType::real ? 1 : 3, type, {}};
        DecodeTimer timer(plan, kVocabulary, kTimedContext, options);
        EXPECT_EQ(timer.cache_bytes(), Decoder(model, options).cache_bytes()) << plan->attention;
        EXPECT_GT(timer.decode(), 0);
      }
    }
  }
}

TEST(DecodeTimer, TakesTurnsWithOthers) {
  std::vector<DecodeTimer> timers;
  for (const Index window : {0, 16}) timers.emplace_back(plan_of("mha", window), kVocabulary, 64);
  const std::vector<double> milliseconds = median_milliseconds(timers, 2);
  ASSERT_EQ(milliseconds.size(), 2u);
  for (const double median : milliseconds) EXPECT_GT(median, 0);
}

}  // namespace
}  // namespace headcount
