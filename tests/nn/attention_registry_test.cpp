// Names, defaults, cache sizes and impossible shapes of attentions, known without building layers.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "nn/attention/attention.h"
#include "nn/layer_config.h"

namespace headcount {
namespace {

LayerConfig of_kind(std::string_view kind, Index heads = 8, Index dim = 256) {
  LayerConfig config;
  config.kind = kind;
  set(config, "heads", heads);
  config.dim = dim;
  return config;
}

Index cache_elements(const LayerConfig& config) {
  return cached_bytes(cache_parts(resolved(config)), {.capacity = 1}).value() / Index{sizeof(Real)};
}

std::string error_of(const LayerConfig& config) {
  try {
    resolved(config);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AttentionRegistry, NamesAreUniqueAndFindTheirKind) {
  std::set<std::string_view> names;
  for (const AttentionKind* kind : attention_kinds()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    EXPECT_EQ(&attention_kind(kind->name), kind);
    EXPECT_FALSE(kind->summary.empty()) << kind->name;
  }
  for (const char* const known : {"mha", "mqa", "gqa", "mfa", "gta", "mla", "dsa", "tpa",
                                  "latent-bias", "fox", "v4", "hca", "csa", "delta", "kda"}) {
    EXPECT_TRUE(names.contains(known)) << known;
  }
}

TEST(AttentionRegistry, UnknownNameIsAnErrorThatListsAll) {
  const std::string message = error_of(of_kind("mhla"));
  EXPECT_NE(message.find("'mhla'"), std::string::npos) << message;
  for (const AttentionKind* kind : attention_kinds()) {
    EXPECT_NE(message.find(kind->name), std::string::npos) << message;
  }
}

TEST(AttentionSettings, OfACopyAreItsOwn) {
  LayerConfig config = of_kind("mla"), other = of_kind("mla");
  set(other, "kv-rank", 24);
  set(other, "rope-dim", 8);
  config = other;
  EXPECT_EQ(get(config, "kv-rank"), 24);
  set(config, "kv-rank", 40);
  EXPECT_EQ(get(config, "kv-rank"), 40);
  EXPECT_EQ(get(config, "rope-dim"), 8);
  EXPECT_EQ(get(other, "kv-rank"), 24);
}

TEST(AttentionDefaults, HeadsShareTheWidth) {
  EXPECT_EQ(resolved(of_kind("mha", 8, 256)).head_dim, 32);
  LayerConfig given = of_kind("mha", 8, 250);
  set(given, "head-dim", 20);
  EXPECT_EQ(resolved(given).head_dim, 20);
}

TEST(AttentionDefaults, KvHeadsAreAllOneOrHalf) {
  const auto kept_heads = [](const LayerConfig& c) {
    return cache_parts(resolved(c)).front().heads;
  };
  EXPECT_EQ(kept_heads(of_kind("mha")), 8);
  EXPECT_EQ(kept_heads(of_kind("mqa")), 1);
  EXPECT_EQ(kept_heads(of_kind("gqa")), 4);
  LayerConfig given = of_kind("gqa");
  set(given, "kv-heads", 2);
  EXPECT_EQ(kept_heads(given), 2);
}

TEST(AttentionDefaults, OfMlaFollowFromTheHeadDimension) {
  const AttentionPlan c = resolved(of_kind("mla", 4, 128));
  EXPECT_EQ(get(c, "nope-dim"), 32);
  EXPECT_EQ(get(c, "v-dim"), 32);
  EXPECT_EQ(get(c, "rope-dim"), 16);
  EXPECT_EQ(get(c, "q-rank"), 0);
  EXPECT_EQ(get(c, "kv-rank"), 48);
  EXPECT_TRUE(get(c, "latent-norm"));
}

// MFA's one head of 64 keeps as much as two of 32; TPA has 6 : 2 products as in its paper.
TEST(AttentionDefaults, OfNewerAttentions) {
  const AttentionPlan mfa = resolved(of_kind("mfa", 4, 128));
  EXPECT_EQ(mfa.head_dim, 64);
  EXPECT_EQ(get(mfa, "q-rank"), 64);
  const AttentionPlan gta = resolved(of_kind("gta", 4, 128));
  EXPECT_EQ(get(gta, "kv-heads"), 2);
  EXPECT_EQ(get(gta, "rope-dim"), 16);
  const AttentionPlan tpa = resolved(of_kind("tpa", 4, 128));
  EXPECT_EQ(get(tpa, "kv-factors"), 2);
  EXPECT_EQ(get(tpa, "q-factors"), 6);
  for (const char* kind : {"mha", "mqa", "gqa"})
    EXPECT_EQ(get(resolved(of_kind(kind, 4, 128)), "rope-dim"), 32) << kind;
}

TEST(AttentionDefaults, RotateAsLlamaDoesAndMlaAsDeepSeekDoes) {
  EXPECT_EQ(resolved(of_kind("mha")).rotary_layout, RotaryLayout::half);
  EXPECT_EQ(resolved(of_kind("mqa")).rotary_layout, RotaryLayout::half);
  EXPECT_EQ(resolved(of_kind("gqa")).rotary_layout, RotaryLayout::half);
  EXPECT_EQ(resolved(of_kind("mla")).rotary_layout, RotaryLayout::interleaved);
}

TEST(AttentionDefaults, MlaCachesAsMuchAsMqa) {
  for (const Index head_dim : {1, 2, 3, 4, 6, 10, 16, 22, 31, 32, 64, 128}) {
    LayerConfig mla = of_kind("mla", 4, 4 * head_dim), mqa = of_kind("mqa", 4, 4 * head_dim);
    mqa.rotary = false;  // which would refuse odd heads
    EXPECT_EQ(cache_elements(mla), cache_elements(mqa)) << head_dim;
  }
}

// Elements per token and layer: keys and values of each KV head; for MLA the latent and one rotary
// key, without a factor 2.
TEST(CacheElementsPerToken, FollowTheKindsFormula) {
  EXPECT_EQ(cache_elements(of_kind("mha")), 2 * 8 * 32);
  EXPECT_EQ(cache_elements(of_kind("mqa")), 2 * 32);
  LayerConfig gqa = of_kind("gqa");
  set(gqa, "kv-heads", 2);
  EXPECT_EQ(cache_elements(gqa), 2 * 2 * 32);
  set(gqa, "tie-kv", true);
  EXPECT_EQ(cache_elements(gqa), 2 * 32);
  LayerConfig mla = of_kind("mla");
  set(mla, "kv-rank", 48);
  set(mla, "rope-dim", 16);
  set(mla, "q-rank", 100);
  EXPECT_EQ(cache_elements(mla), 48 + 16);
  set(mla, "rope-dim", 0);
  EXPECT_EQ(cache_elements(mla), 48);
  set(mla, "latents", 2);
  EXPECT_EQ(cache_elements(mla), 48);
  LayerConfig gta = of_kind("gta");
  set(gta, "kv-heads", 2);
  EXPECT_EQ(cache_elements(gta), 2 * 32 + 32 / 2);
  LayerConfig mfa = of_kind("mfa");
  set(mfa, "head-dim", 64);
  EXPECT_EQ(cache_elements(mfa), 2 * 64);
  set(mfa, "tie-kv", true);
  EXPECT_EQ(cache_elements(mfa), 64);
  LayerConfig tpa = of_kind("tpa");
  set(tpa, "kv-factors", 3);
  EXPECT_EQ(cache_elements(tpa), (3 + 3) * (8 + 32));
  LayerConfig latent_bias = of_kind("latent-bias");
  set(latent_bias, "latent-dim", 10);
  EXPECT_EQ(cache_elements(latent_bias), 8 * (32 + 32 + 10));
  LayerConfig fox = of_kind("fox");
  set(fox, "kv-heads", 2);
  EXPECT_EQ(cached_bytes(cache_parts(resolved(fox)), {.capacity = 1, .rounding = CacheType::bf16}),
            2 * 2 * 32 * 2 + 8 * Index{sizeof(Real)});  // forget gates are not rounded
}

// DeepSeek-V3 caches 512 + 64 elements per token; Llama 3 8B has 8 KV heads of 128.
TEST(CacheElementsPerToken, AreThoseOfPublishedModels) {
  LayerConfig deepseek = of_kind("mla", 128, 7168);
  set(deepseek, "head-dim", 128);
  set(deepseek, "nope-dim", 128);
  set(deepseek, "v-dim", 128);
  set(deepseek, "kv-rank", 512);
  set(deepseek, "q-rank", 1536);
  set(deepseek, "rope-dim", 64);
  EXPECT_EQ(cache_elements(deepseek), 576);
  LayerConfig llama = of_kind("gqa", 32, 4096);
  set(llama, "kv-heads", 8);
  EXPECT_EQ(cache_elements(llama), 2048);
}

struct BadShape {
  std::string expected;  // in the message
  LayerConfig config;
};

TEST(ImpossibleShapes, AreErrorsThatNameTheFlagAndItsValue) {
  LayerConfig kv_heads = of_kind("gqa");
  set(kv_heads, "kv-heads", 3);
  LayerConfig more_kv_heads = of_kind("gqa");
  set(more_kv_heads, "kv-heads", 16);
  LayerConfig rope_dim = of_kind("mla");
  set(rope_dim, "rope-dim", 7);
  LayerConfig kv_rank = of_kind("mla");
  set(kv_rank, "rope-dim", 64);
  LayerConfig odd_part = of_kind("gqa"), more_than_all = of_kind("mqa");
  set(odd_part, "rope-dim", 7);
  set(more_than_all, "rope-dim", 34);
  LayerConfig latents = of_kind("mla"), latents_of_rank = of_kind("mla");
  set(latents, "latents", 3);
  set(latents_of_rank, "latents", 4);
  set(latents_of_rank, "kv-rank", 50);
  LayerConfig gta = of_kind("gta");
  set(gta, "kv-heads", 3);
  const std::vector<BadShape> all = {
      {"`heads` 3 does not divide `dim` 256", of_kind("mha", 3)},
      {"`heads` 3 does not divide `dim` 256", of_kind("mqa", 3)},
      {"`heads` 3 does not divide `dim` 256", of_kind("mla", 3)},
      {"`kv-heads` 3 does not divide `heads` 8", kv_heads},
      {"`kv-heads` 16 does not divide `heads` 8", more_kv_heads},
      {"`kv-heads`", of_kind("gqa", 5, 50)},
      {"`head-dim`, which is 5", of_kind("mha", 3, 15)},
      {"`head-dim`, which is 5", of_kind("mqa", 3, 15)},
      {"`head-dim`, which is 5", of_kind("gqa", 4, 20)},
      {"`head-dim`, which is 5", of_kind("latent-bias", 3, 15)},
      {"`rope-dim` must be even, is 7", rope_dim},
      {"`rope-dim` must be even, is 7", odd_part},
      {"`latents` 3 does not divide `heads` 8; 2 does", latents},
      {"`latents` 4 does not divide `kv-rank` 50", latents_of_rank},
      {"`kv-heads` 3 does not divide `heads` 8", gta},
      {"`head-dim`, which is 5", of_kind("tpa", 4, 20)},
      {"`rope-dim` 34 is more than a head's width, `head-dim` 32", more_than_all},
      {"`rope-dim` 64 leaves nothing for the default `kv-rank`", kv_rank},
  };
  for (const auto& [expected, config] : all) {
    EXPECT_NE(error_of(config).find(expected), std::string::npos) << error_of(config);
  }
}

TEST(ImpossibleShapes, OddHeadsAreFineWithoutRotation) {
  LayerConfig odd = of_kind("mha", 3, 15);
  odd.rotary = false;
  EXPECT_EQ(error_of(odd), "no error");
  LayerConfig mla = of_kind("mla");
  set(mla, "rope-dim", 7);
  mla.rotary = false;
  EXPECT_EQ(error_of(mla), "no error");
}

}  // namespace
}  // namespace headcount
