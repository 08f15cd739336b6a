// Defaults, cache sizes, impossible shapes and notes of attentions, known without building layers.
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/text.h"
#include "nn/attention/costs.h"
#include "nn/attention/layer_config.h"
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

// KV heads are all, one or half of the heads. MFA's one head of 64 keeps as much as two of 32; TPA
// has 6 : 2 products as in its paper.
TEST(AttentionDefaults, FollowFromTheHeadsAndTheWidth) {
  for (const auto& [kind, expected] :
       {std::pair{"mla", R"({"nope-dim": 32, "v-dim": 32, "rope-dim": 16, "q-rank": 0,
                             "kv-rank": 48, "latent-norm": "on"})"},
        {"mfa", R"({"head-dim": 64, "q-rank": 64})"},
        {"gta", R"({"kv-heads": 2, "rope-dim": 16})"},
        {"tpa", R"({"kv-factors": 2, "q-factors": 6})"},
        {"mha", R"({"head-dim": 32, "rope-dim": 32})"},
        {"gqa", R"({"kv-heads": 2, "rope-dim": 32})"}}) {
    nlohmann::json values = resolved(of_kind(kind, 4, 128)).values();
    const nlohmann::json as_expected = nlohmann::json::parse(expected);
    for (const auto& [name, value] : as_expected.items())
      EXPECT_EQ(values[name], value) << kind << " " << name;
  }
}

TEST(AttentionDefaults, MlaCachesAsMuchAsMqa) {
  for (const Index head_dim : {1, 2, 3, 4, 6, 10, 16, 22, 31, 32, 64, 128}) {
    LayerConfig mla = of_kind("mla", 4, 4 * head_dim), mqa = of_kind("mqa", 4, 4 * head_dim);
    set(mqa, "positions", "none");  // RoPE would refuse odd heads
    EXPECT_EQ(cache_elements(mla), cache_elements(mqa)) << head_dim;
  }
}

// The name by which `cache-dtype` gives the row a type; "state" is that of recurrent states.
TEST(CacheParts, OfGtaAreARowThatIsKeyAndValueAndARotaryKey) {
  std::vector<std::string> names;
  for (const Kept& kept : cache_parts(resolved(of_kind("gta")))) names.push_back(kept.name);
  EXPECT_EQ(names, (std::vector<std::string>{"kv", "rope_key"}));
}

// Keys and values of each KV head; of tied heads, or of a latent and a rotary key, one row.
TEST(CacheElementsPerToken, FollowTheKindsFormula) {
  for (const auto& [word, elements] : {std::pair{"mha", 2 * 8 * 32},
                                       {"mqa", 2 * 32},
                                       {"gqa", 2 * 4 * 32},
                                       {"gqa:kv-heads=2", 2 * 2 * 32},
                                       {"gqa:kv-heads=2:tie-kv=on", 2 * 32},
                                       {"gqa:kv-heads=2:key-dim=48", 2 * (48 + 32)},
                                       {"bsa:kv-heads=2", 2 * 2 * 32 + 16},
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
  LayerConfig odd_without_rotation = of_kind("mha", 3, 15);
  set(odd_without_rotation, "positions", "none");
  for (const auto& [config, expected] :
       {std::pair{odd_without_rotation, "no error"},
        {of_kind("mha", 3), "`heads` 3 does not divide `dim` 256"},
        {of_kind("mla", 3), "`heads` 3 does not divide `dim` 256"},
        {of_word("gqa:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_word("gqa:kv-heads=16"), "`kv-heads` 16 does not divide `heads` 8"},
        {of_word("gta:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_word("fox:kv-heads=3"), "`kv-heads` 3 does not divide `heads` 8"},
        {of_kind("gqa", 5, 50), "`heads` 5 is odd; give `kv-heads`"},
        {of_kind("mha", 3, 15), "`head-dim`, which is 5"},
        {of_kind("latent-bias", 3, 15), "`head-dim`, which is 5"},
        {of_kind("tpa", 4, 20), "`head-dim`, which is 5"},
        {of_word("mla:rope-dim=7"), "`rope-dim` must be even, is 7"},
        {of_word("gqa:rope-dim=7"), "`rope-dim` must be even, is 7"},
        {of_word("mla:latents=3"), "`latents` 3 does not divide `heads` 8; 2 does"},
        {of_word("mla:latents=4:kv-rank=50"), "`latents` 4 does not divide `kv-rank` 50"},
        {of_word("mqa:rope-dim=34"), "`rope-dim` 34 is more than the width of a key, 32"},
        {of_word("mqa:key-dim=33"), "`rope-dim` must be even, is 33"},
        {of_word("mqa:tie-kv=on:key-dim=48"), "a key is a value, `head-dim` 32 wide"},
        {of_word("mla:rope-dim=64"), "`rope-dim` 64 leaves nothing for the default `kv-rank`"},
        {of_word("delta:value-heads=2:key-heads=3"),
         "`key-heads` 3 does not divide `value-heads` 2"}})
    EXPECT_NE(error_of(config).find(expected), std::string::npos) << error_of(config);
}

// The context has 32 tokens. An open block has at most 7, of each of which 32 numbers of C and of Z
// are kept.
TEST(NotesOnAttentions, SayWhatIsKeptAndWhatIsNotReadTrainedOrLeftOut) {
  using Notes = std::vector<std::string>;
  const std::string keeps = "keeps 1/8 of a row of 32 numbers per token, ",
                    open = ", and for an open block 448 numbers";
  for (const auto& [word, parts] : std::initializer_list<std::pair<const char*, Notes>>{
           {"mqa:window=4", {}},
           {"hca:window=7:head-dim=32", {keeps + "in its window at most 224 numbers" + open}},
           {"hca:head-dim=32", {keeps + "32 numbers more without a window" + open}},
           {"hca:window=6", {"", "a `window` of 6 is shorter than an open block of 8 tokens"}},
           {"hca:window=4:compress=33", {"", "a block of 33 tokens is longer than the context of"}},
           {"hca:window=31:compress=32", {""}},
           {"dsa:index-topk=31", {}},
           {"dsa:index-topk=32:index-loss=0", {"leaves out none of the at most 32 rows"}},
           {"dsa:index-topk=4:index-loss=0", {"nothing trains the indexer of dsa"}},
           {"csa:index-topk=7", {""}},
           {"csa:index-topk=8", {"", "leaves out none of the at most 8 rows"}},
           {"csa:index-topk=4:index-loss=0", {"", "nothing trains the indexer of csa"}}}) {
    LayerConfig config = of_word(word);
    config.max_positions = 32;
    const Notes notes = attention_notes(resolved(config));
    ASSERT_EQ(notes.size(), parts.size()) << word;
    for (std::size_t i = 0; i < notes.size(); ++i)
      EXPECT_NE(notes[i].find(parts[i]), std::string::npos) << notes[i];
  }
}

}  // namespace
}  // namespace headcount
