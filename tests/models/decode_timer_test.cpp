#include "bench/decode_timer.h"

#include <gtest/gtest.h>

#include "models/decoder.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 20;

constexpr Index kTimedContext = 24;

ModelPlan plan_of(std::string_view kind, Index window) {
  return resolve_model(
      Given(model_settings(),
            {{"layers", 1}, {"dim", 16}, {"attention", kind}, {"heads", 2}, {"window", window}}));
}

void expect_cache_of_sampling(const ModelPlan& plan, const DecodeOptions& options) {
  SCOPED_TRACE(plan->attention);
  DecodeTimer timer(plan, kVocabulary, kTimedContext, options);
  LanguageModel model(with_settings(plan, {{"context", kTimedContext}}), kVocabulary);
  model.initialize(1);
  EXPECT_EQ(timer.cache_bytes(), Decoder(model, options).cache_bytes());
  EXPECT_GT(timer.decode(), 0);
}

TEST(DecodeTimer, TimesTheCacheThatSamplingHas) {
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Index window : {0, 8, 24, 100}) {
      if (window == 0 || kind->attends) expect_cache_of_sampling(plan_of(kind->name, window), {});
    }
  }
  for (const char* const kind : {"gqa", "mla", "delta"}) {
    for (const CacheType type : {CacheType::bf16, CacheType::f16, CacheType::int8})
      expect_cache_of_sampling(plan_of(kind, 0), {3, type});
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
