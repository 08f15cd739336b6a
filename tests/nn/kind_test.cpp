// Names, defaults, cache sizes and impossible shapes of attentions, known without building layers.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "autograd/base/text.h"
#include "nn/attention/attention.h"
#include "nn/layer_config.h"
#include "support/message_of.h"

namespace headcount {
namespace {

LayerConfig of_kind(std::string_view kind, Index heads = 8, Index dim = 256) {
  LayerConfig config;
  config.kind = kind;
  set(config, "heads", heads);
  config.dim = dim;
  return config;
}

// 8 heads, 256 wide, with the settings of a word such as "gqa:kv-heads=2".
LayerConfig of_word(const std::string& word) {
  const std::vector<std::string_view> parts = split_text(word, ':');
  LayerConfig config = of_kind(parts.front());
  for (const std::string_view part : std::span(parts).subspan(1))
    set(config, std::string(part.substr(0, part.find('='))), part.substr(part.find('=') + 1));
  return config;
}

Index cache_elements(const LayerConfig& config) {
  return cached_bytes(cache_parts(resolved(config)), {.capacity = 1}).value() / Index{sizeof(Real)};
}

std::string error_of(const LayerConfig& config) {
  return message_of<ShapeError>([&] { resolved(config); });
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

// KV heads are all, one or half of the heads. MFA's one head of 64 keeps as much as two of 32; TPA
// has 6 : 2 products as in its paper.
TEST(AttentionDefaults, FollowFromTheHeadsAndTheWidth) {
  for (const auto& [kind, name, value] :
       std::vector<std::tuple<const char*, const char*, Index>>{{"mla", "nope-dim", 32},
                                                                {"mla", "v-dim", 32},
                                                                {"mla", "rope-dim", 16},
                                                                {"mla", "q-rank", 0},
                                                                {"mla", "kv-rank", 48},
                                                                {"mla", "latent-norm", 1},
                                                                {"mfa", "q-rank", 64},
                                                                {"gta", "kv-heads", 2},
                                                                {"gta", "rope-dim", 16},
                                                                {"tpa", "kv-factors", 2},
                                                                {"tpa", "q-factors", 6},
                                                                {"mha", "rope-dim", 32},
                                                                {"mqa", "rope-dim", 32},
                                                                {"gqa", "rope-dim", 32},
                                                                {"gqa", "kv-heads", 2}})
    EXPECT_EQ(get(resolved(of_kind(kind, 4, 128)), name), value) << kind << " " << name;
  EXPECT_EQ(resolved(of_kind("mha", 4, 128)).head_dim, 32);
  EXPECT_EQ(resolved(of_kind("mfa", 4, 128)).head_dim, 64);
  LayerConfig given = of_kind("mha", 8, 250);
  set(given, "head-dim", 20);
  EXPECT_EQ(resolved(given).head_dim, 20);
}

TEST(AttentionDefaults, MlaCachesAsMuchAsMqa) {
  for (const Index head_dim : {1, 2, 3, 4, 6, 10, 16, 22, 31, 32, 64, 128}) {
    LayerConfig mla = of_kind("mla", 4, 4 * head_dim), mqa = of_kind("mqa", 4, 4 * head_dim);
    mqa.rotary = false;  // which would refuse odd heads
    EXPECT_EQ(cache_elements(mla), cache_elements(mqa)) << head_dim;
  }
}

// Keys and values of each KV head; of tied heads, or of a latent and a rotary key, one row.
TEST(CacheElementsPerToken, FollowTheKindsFormula) {
  for (const auto& [word, elements] : {std::pair{"mha", 2 * 8 * 32},
                                       {"mqa", 2 * 32},
                                       {"gqa", 2 * 4 * 32},
                                       {"gqa:kv-heads=2", 2 * 2 * 32},
                                       {"gqa:kv-heads=2:tie-kv=on", 2 * 32},
                                       {"mla:kv-rank=48:rope-dim=16:q-rank=100", 48 + 16},
                                       {"mla:kv-rank=48:rope-dim=0:latents=2", 48},
                                       {"gta:kv-heads=2", 2 * 32 + 32 / 2},
                                       {"mfa:head-dim=64:tie-kv=on", 64},
                                       {"tpa:kv-factors=3", (3 + 3) * (8 + 32)},
                                       {"latent-bias:latent-dim=10", 8 * (32 + 32 + 10)}})
    EXPECT_EQ(cache_elements(of_word(word)), elements) << word;
  EXPECT_EQ(cached_bytes(cache_parts(resolved(of_word("fox:kv-heads=2"))),
                         {.capacity = 1, .rounding = CacheType::bf16}),
            2 * 2 * 32 * 2 + 8 * Index{sizeof(Real)});  // forget gates are not rounded
}

TEST(ImpossibleShapes, AreErrorsThatNameTheFlagAndItsValue) {
  for (const auto& [config, expected] :
       {std::pair{of_kind("mha", 3), "`heads` 3 does not divide `dim` 256"},
        {of_kind("mqa", 3), "`heads` 3 does not divide `dim` 256"},
        {of_kind("mla", 3), "`heads` 3 does not divide `dim` 256"},
        {of_word("gqa:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_word("gqa:kv-heads=16"), "`kv-heads` 16 does not divide `heads` 8"},
        {of_word("gta:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_word("fox:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_kind("gqa", 5, 50), "`kv-heads`"},
        {of_kind("mha", 3, 15), "`head-dim`, which is 5"},
        {of_kind("mqa", 3, 15), "`head-dim`, which is 5"},
        {of_kind("gqa", 4, 20), "`head-dim`, which is 5"},
        {of_kind("latent-bias", 3, 15), "`head-dim`, which is 5"},
        {of_kind("tpa", 4, 20), "`head-dim`, which is 5"},
        {of_word("mla:rope-dim=7"), "`rope-dim` must be even, is 7"},
        {of_word("gqa:rope-dim=7"), "`rope-dim` must be even, is 7"},
        {of_word("mla:latents=3"), "`latents` 3 does not divide `heads` 8; 2 does"},
        {of_word("mla:latents=4:kv-rank=50"), "`latents` 4 does not divide `kv-rank` 50"},
        {of_word("mqa:rope-dim=34"), "`rope-dim` 34 is more than a head's width, `head-dim` 32"},
        {of_word("mla:rope-dim=64"), "`rope-dim` 64 leaves nothing for the default `kv-rank`"},
        {of_word("delta:value-heads=2:key-heads=3"),
         "`key-heads` 3 does not divide `value-heads` 2"}})
    EXPECT_NE(error_of(config).find(expected), std::string::npos) << error_of(config);
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
