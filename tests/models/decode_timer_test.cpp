#include "bench/decode_timer.h"

#include <gtest/gtest.h>

#include "models/decoder.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 20;

ModelPlan plan_of(std::string_view kind, Index window) {
  return resolve_model(
      Given(model_settings(),
            {{"layers", 1}, {"dim", 16}, {"attention", kind}, {"heads", 2}, {"window", window}}));
}

TEST(DecodeTimer, TimesTheCacheThatSamplingHas) {
  constexpr Index kContext = 24;
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Index window : {0, 8, 24, 100}) {
      if (window > 0 && !kind->attends) continue;
      const ModelPlan plan = plan_of(kind->name, window);
      DecodeTimer timer(plan, kVocabulary, kContext);
      LanguageModel model(with_settings(plan, {{"context", kContext}}), kVocabulary);
      model.initialize(1);
      Decoder decoder(model, {});
      EXPECT_EQ(timer.cache_bytes(), decoder.cache_bytes()) << kind->name << ", window " << window;
      EXPECT_GT(timer.decode(), 0) << kind->name;
    }
  }
}

TEST(DecodeTimer, TimesSeveralSequencesAndCachesOfEveryType) {
  constexpr Index kContext = 24;
  for (const char* const kind : {"gqa", "mla", "delta"}) {
    for (const CacheType type :
         {CacheType::real, CacheType::bf16, CacheType::f16, CacheType::int8}) {
      const ModelPlan plan = plan_of(kind, 0);
      DecodeTimer timer(plan, kVocabulary, kContext, {3, type});
      LanguageModel model(with_settings(plan, {{"context", kContext}}), kVocabulary);
      model.initialize(1);
      EXPECT_EQ(timer.cache_bytes(), Decoder(model, {3, type}).cache_bytes()) << kind;
      EXPECT_GT(timer.decode(), 0) << kind;
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
