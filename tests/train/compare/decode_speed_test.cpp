#include "train/compare/decode_speed.h"

#include <gtest/gtest.h>

#include "models/decoder.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 20;

ModelConfig config_of(std::string_view kind, Index window) {
  ModelConfig config;
  config.layers = 1;
  config.dim = 16;
  config.attention.kind = kind;
  config.attention.heads = 2;
  config.attention.window = window;
  config.resolve();
  return config;
}

TEST(DecodeTimer, TimesTheCacheThatSamplingHas) {
  constexpr Index kContext = 24;
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Index window : {0, 8, 24, 100}) {
      if (window > 0 && !kind->attends) continue;
      ModelConfig config = config_of(kind->name, window);
      DecodeTimer timer(config, kVocabulary, kContext);
      config.context = kContext;
      LanguageModel model(config, kVocabulary);
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
      ModelConfig config = config_of(kind, 0);
      DecodeTimer timer(config, kVocabulary, kContext, {3, type});
      config.context = kContext;
      LanguageModel model(config, kVocabulary);
      model.initialize(1);
      EXPECT_EQ(timer.cache_bytes(), Decoder(model, {3, type}).cache_bytes()) << kind;
      EXPECT_GT(timer.decode(), 0) << kind;
    }
  }
}

TEST(DecodeTimer, DecodesTheOnlyTokenOfAContextOfOne) {
  DecodeTimer timer(config_of("gqa", 0), kVocabulary, 1);
  EXPECT_GT(timer.decode(), 0);
}

// In turns, so that what slows the machine down slows both down.
TEST(DecodeTimer, AWindowMakesLongContextsCheap) {
  std::vector<DecodeTimer> timers;
  for (const Index window : {0, 16})
    timers.emplace_back(config_of("mha", window), kVocabulary, 16384);
  const std::vector<double> milliseconds = median_milliseconds(timers, 2);
  EXPECT_LT(2 * milliseconds[1], milliseconds[0]);
}

}  // namespace
}  // namespace headcount
