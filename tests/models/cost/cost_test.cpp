// label: unsanitized
// What the cost model says, against published tables, well-known models and real layers, and where
// its numbers end.
#include "models/cost/cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/products/mac_counter.h"
#include "models/cost/config_cache.h"
#include "models/cost/model_file.h"
#include "models/decoder.h"
#include "models/language_model.h"
#include "nn/attention/costs.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

using Number = std::int64_t;

// Rows of the attention in `settings`, and of kinds that its sizes fit, by name.
std::map<std::string, CostRow> table_of(const json& settings, Index context) {
  const Given given(model_settings(), settings);
  const std::string own = given.text("attention");
  std::vector<std::string> attentions = {own};
  for (const AttentionKind* kind : attention_kinds()) attentions.emplace_back(kind->name);
  std::map<std::string, CostRow> rows;
  for (const std::string& attention : attentions) {
    Given one = given;
    one.put("attention", attention);
    try {
      for (const CostRow& row : cost_rows(resolve_model(one), attention, context)) {
        row.cache.bytes(1 << 20, {});
        rows.emplace(row.name, row);
      }
    } catch (const ShapeError&) {
      if (attention == own) throw;
    }
  }
  return rows;
}

json with(json settings, const json& others) {
  settings.update(others);
  return settings;
}

constexpr Number kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;

struct PublishedFigures {
  std::string attention;
  Number parameters, projections = 0, cache = 0, prefill = 0, decode = 0;  // 0: not published
};

void expect_published(const char* settings, Index context,
                      const std::vector<PublishedFigures>& rows) {
  const auto table = table_of(json::parse(settings), context);
  for (const PublishedFigures& published : rows) {
    const CostRow& row = table.at(published.attention);
    const Costs& costs = *row.costs;
    for (const auto& [figure, count] :
         {std::pair{published.parameters, costs.parameters},
          {published.projections, costs.linear_macs_per_token * context},
          {published.cache, row.cache.numbers(context).total()},
          {published.prefill, costs.prefill_macs},
          {published.decode, costs.decode_macs}}) {
      if (figure > 0) {
        EXPECT_EQ(count, figure) << published.attention;
      }
    }
  }
}

// The blog's "MLA absorbed" has kv_b_proj merged into other matrices. Norms of latents, on by
// default, are merged too and add nothing.
TEST(CostTable, HasTheFiguresOfAnArticleAndOfABlog) {
  expect_published(R"({"layers": 1, "dim": 256, "heads": 8, "kv-heads": 4, "bias": "on",
                       "kv-rank": 64, "q-rank": 64, "nope-dim": 16, "v-dim": 16, "rope-dim": 26,
                       "latent-norm": "off"})",
                   10,
                   {{"mha", 263'168, 2'621'440},
                    {"mqa", 148'032, 1'474'560},
                    {"gqa", 197'376, 1'966'080},
                    {"mla", 111'082, 1'100'800}});
  expect_published(R"({"layers": 1, "dim": 8192, "heads": 64, "head-dim": 128, "kv-heads": 8,
                       "kv-rank": 512, "rope-dim": 0})",
                   131'072,
                   {{"mha", 256 * kMega, 0, 2 * kGiga, 256 * kTera, 2 * kGiga},
                    {"mqa", 130 * kMega, 0, 32 * kMega, 256 * kTera, 2 * kGiga},
                    {"gqa", 144 * kMega, 0, 256 * kMega, 256 * kTera, 2 * kGiga},
                    {"mla-merged", 516 * kMega, 0, 64 * kMega, 1024 * kTera, 8 * kGiga}});
}

// With a gate before o_proj, what expands the values cannot be multiplied into it.
TEST(CostTable, HasAGatesMatrixAndInMergedMlaTheOneThatExpandsValues) {
  const json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                      {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  const auto plain = table_of(sizes, 1), gated = table_of(with(sizes, {{"gate", "on"}}), 1);
  const Index gate = 64 * 4 * 8, o_proj = 64 * 4 * 8, merged_o_proj = 64 * 4 * 32;
  for (const std::string kind : {"mla", "mla-absorbed", "mla-merged"}) {
    const Index more = kind != "mla-merged" ? gate : gate + 32 * 4 * 8 + o_proj - merged_o_proj;
    const Costs &before = *plain.at(kind).costs, &after = *gated.at(kind).costs;
    EXPECT_EQ(before.expansion_macs == Count(0), kind != "mla") << kind;
    EXPECT_EQ(after.parameters, before.parameters + more) << kind;
    EXPECT_EQ(after.linear_macs_per_token, before.linear_macs_per_token + more) << kind;
  }
}

// Rows of 32 numbers, keys and values: 64, 16 + 2 and 32 + 2 bytes each.
TEST(ModelCaches, AddUpTheBytesOfLayersOfSeveralTypes) {
  const json sizes = {{"attention", "mqax32"}, {"dim", 64}, {"heads", 4}, {"layers", 5}};
  const ModelCache cache = cache_of(resolve_model(Given(model_settings(), sizes)));
  const auto rounding = CacheRounding::parse("int4+layer5=bf16+layer1=bf16+layers2-3=int8");
  EXPECT_EQ(rounding.text(), "int4+layer1=bf16+layers2-3=int8+layer5=bf16");
  EXPECT_EQ(cache.bytes_per_token(rounding), 2 * (64 + 34 + 34 + 18 + 64));
  EXPECT_EQ(cache.bytes(10, rounding).total(), 10 * 2 * (64 + 34 + 34 + 18 + 64));
  const auto parts = CacheRounding::parse("k=int4+v=int8+layers4-5=f32");
  EXPECT_EQ(cache.bytes_per_token(parts), 3 * (18 + 34) + 2 * 2 * 32 * sizeof(Real));
  std::vector<std::string> each;
  for (const CacheRounding& one : CacheRounding::parse("int2+layers2-3=f32").each_exact(5))
    each.push_back(one.text());
  EXPECT_EQ(each, (std::vector<std::string>{"int2+layers1-3=f32", "int2+layers2-4=f32",
                                            "int2+layers2-3=f32+layer5=f32"}));
}

TEST(ModelCaches, RefuseAPatternWithAPartThatARoundingDoesNotFit) {
  const auto refusal = [](const char* attention, const char* cache) {
    CacheRounding rounding = CacheRounding::parse(cache);
    rounding.all.group = 8;
    return message_of([&] {
      const json sizes = {{"attention", attention}, {"dim", 48}, {"heads", 4}};
      cache_of(resolve_model(Given(model_settings(), sizes))).require_fit(rounding);
    });
  };
  EXPECT_EQ(refusal("mqax16/mha", "f16"), "no error");
  EXPECT_EQ(refusal("mqax16/mha", "int4"),
            "`cache-group` 8 does not divide the 12 numbers of a cached row; 6 does");
  EXPECT_EQ(
      refusal("mla/share", "v=int4"),
      "`cache-dtype` rounds 'v', which the model does not keep; its parts are latent, rope_key");
}

// Costs of settings as config.json has them: parameters of attention and of Canon layers, and
// the products of a forward pass but for those of feed-forward layers and logits. All pairs of so
// few tokens are in one tile, of which causality skips none.
TEST(CostsOfAPattern, AreThoseOfItsLayersAndCanonLayers) {
  constexpr Index kBatch = 2, kLength = 16, kTokens = kBatch * kLength;
  for (const std::string spec :
       {"mqa/share", "gqa2x4/2*share/mha", "mla/share/gqa", "mlax6/latent-bias", "hca8@16/share",
        "csa4+4@16/share", "mqa:canon=ABCD/delta:canon=D"}) {
    const json settings = {{"layers", 7},        {"dim", 24},     {"heads", 4},
                           {"context", kLength}, {"ffn-dim", 10}, {"attention", spec}};
    LanguageModel model(resolve_model(Given(model_settings(), settings)), 3);
    const Costs costs = *table_of(model.plan()->settings, kLength).at(spec).costs;
    Index parameters = 0;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const std::string& name = model.parameters().name({i});
      if (name.find(".self_attn.") != std::string::npos || name.find("canon") != std::string::npos)
        parameters += model.parameters().shape({i}).size();
    }
    EXPECT_EQ(costs.parameters, parameters) << spec;
    model.initialize(1);
    const MacCounter counter;
    Tape tape(std::as_const(model).parameters());
    model.logits(tape, std::vector<std::int32_t>(kTokens), kBatch);
    const Count macs = Count(kBatch) * (costs.linear_macs_per_token * kLength + costs.prefill_macs);
    EXPECT_EQ(counter.count() - kTokens * 24 * (7 * 3 * 10 + 3), macs.value()) << spec;
  }
}

// Among 12 layers 4 are global, 4 have windows of 16 tokens and 4 share; a pair is 2 x 4 x 8 MACs.
TEST(CostsOfAPattern, CountTheTokensThatWindowsShow) {
  const json config = {
      {"layers", 12}, {"dim", 32}, {"heads", 4}, {"attention", "mqa@16/share/mqa"}};
  const CostRow row = table_of(config, 100).at("mqa@16/share/mqa");
  EXPECT_EQ(row.costs->decode_macs, 2 * 4 * 8 * (8 * 16 + 4 * 100));
  for (const Index tokens : {4096, 131'072})
    EXPECT_EQ(row.cache.bytes(tokens, CacheType::f16).total(), 2 * 2 * 8 * (4 * 16 + 4 * tokens));
}

TEST(Counts, AreExactOrErrors) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Count(kMost - 1) + 1, kMost);
  EXPECT_EQ(Count(kMost / 7) * 7, kMost);  // 2^63 - 1 is a multiple of 7
  EXPECT_THROW(Count(kMost) + 1, ShapeError);
  EXPECT_THROW(Count(kMost / 7 + 1) * 7, ShapeError);
  EXPECT_THROW(Count(std::int64_t{1} << 32) * (std::int64_t{1} << 32), ShapeError);  // wraps to 0
  Count sum = kMost;
  EXPECT_THROW(sum += 1, ShapeError);
}

// Each figure alone, by sizes at which those before it still fit.
TEST(CostTable, RefusesWhatOverflowsInsteadOfWrapping) {
  const json wide = {{"layers", 1}, {"dim", 2}, {"heads", kMega}, {"head-dim", 2}};
  EXPECT_EQ(table_of(wide, kMega / 2).at("mha").costs->prefill_macs,
            Number{1} << 60);  // 2^22 a pair, 2^19 tokens
  for (const auto& [settings, context] :
       {std::pair{R"({"dim": 2, "heads": 1048576, "head-dim": 2})", 1 << 24},
        {R"({"dim": 1048576, "heads": 2147483646, "head-dim": 4096})", 1},
        {R"({"dim": 2, "heads": 2147483646, "head-dim": 2147483646})", 1},
        {R"({"dim": 2, "heads": 2, "attention": "mla", "kv-rank": 2147483646,
                "v-dim": 2147483646})",
         1},
        {R"({"dim": 2, "heads": 1048576, "head-dim": 1024, "layers": 10000})", 1}}) {
    const json one_layer = {{"layers", 1}};
    EXPECT_NE(message_of<ShapeError>([&, sizes = settings, tokens = context] {
                table_of(with(one_layer, json::parse(sizes)), tokens);
              }).find("overflow"),
              std::string::npos)
        << settings;
  }
}

// Weights of the attention of all layers, by hand from the tables of their papers; norms of queries
// and keys are not counted.
const std::map<std::string, Number> kPublishedWeights = {
    {"gpt-2", 12 * 2'362'368},
    {"llama-2-7b", Number{32} * 67'108'864},
    {"llama-3-8b", 32 * 41'943'040},
    {"llama-3-70b", Number{80} * 150'994'944},
    {"mistral-7b", 32 * 41'943'040},
    {"qwen3-8b", 36 * 41'943'040},
    {"deepseek-v2", Number{60} * 149'227'520},
    {"deepseek-v3", Number{61} * 187'107'328},
    {"deepseek-v3.2", Number{61} * (187'107'328 + 13'959'424)},
    {"gemma-3-27b", Number{62} * 66'060'288},
    {"qwen3-next-80b", 36 * 33'718'464 + 12 * 27'262'976},
    {"kimi-linear-48b", 20 * 39'514'272 + 7 * 29'114'880},
    {"gpt-oss-20b", 24 * 26'550'144},
    {"gpt-oss-120b", 36 * 26'550'144},
    {"gemma-3n-e4b", 35 * 8'388'608 + 20 * 2'097'152},
    {"deepseek-v4", Number{43} * 106'956'352 + 20 * 4'260'352 + 21 * 19'142'272},
    {"minimax-m3", Number{60} * 106'954'752 + 57 * 3'932'416},
    {"glm-5.2", Number{78} * 165'022'208 + 21 * 9'371'904},
    {"step-3", Number{61} * 169'347'072}};

// ConfigCache compares the caches of most configurations with those of transformers.
TEST(KnownModels, HaveThePublishedWeightsAndTheCacheOfTheirConfiguration) {
  std::size_t known = 0;
  for (const ModelFile& model : released_models()) {
    if (model.settings.is_null()) continue;
    ++known;
    SCOPED_TRACE(model.name);
    const ModelPlan plan = resolve_model(Given(model_settings(), model.settings));
    Count weights;
    for (Index layer = 0; layer < plan->layers; ++layer)
      weights += attention_costs(plan->layer_attention(layer), 1).front().parameters;
    EXPECT_EQ(weights, kPublishedWeights.at(model.name));
    const CacheSizes cache = cache_of(plan).numbers(5000),
                     published = read_config_cache(model.config).numbers(5000);
    EXPECT_EQ(cache.growing, published.growing);
    EXPECT_EQ(cache.windowed, published.windowed);
    // Numbers of blocks that are still open, which a configuration does not count.
    const Index open = model.name == "deepseek-v4" ? 21 * 640 * 20 + 20 * 2 * 127 * 512 : 0;
    EXPECT_EQ(cache.once, published.once + open);
  }
  EXPECT_EQ(known, kPublishedWeights.size());
}

// Its other sizes are not published.
TEST(DeepSeekV41, KeepsWhatItsConfigurationDoesAsAPattern) {
  std::string pattern = "2*v4@128";
  for (const char* block : {"2", "2", "2", "1"})
    pattern +=
        std::string("/csa") + block + "@128/" + (*block == '2' ? "5" : "3") + "*share-pooled-index";
  for (int i = 0; i < 4; ++i) pattern += "/share-pooled/3*share-pooled-index";
  const ModelCache cache = cache_of(resolve_model(Given(model_settings(), {{"attention", pattern},
                                                                           {"layers", 40},
                                                                           {"head-dim", 512},
                                                                           {"heads", 64},
                                                                           {"index-head-dim", 128},
                                                                           {"rope-dim", 64}})));
  const ModelCache published = read_config_cache(released_model("deepseek-v4.1").config);
  EXPECT_EQ(cache.numbers(5000).growing, published.numbers(5000).growing);
  EXPECT_EQ(cache.numbers(5000).windowed, published.numbers(5000).windowed);
  EXPECT_EQ(published.numbers(5000).growing, 5000 * 1600);
}

ModelCache llama_of(Index layers, Index dim, Index heads, Index kv_heads) {
  return read_config_cache({{"model_type", "llama"},
                            {"num_hidden_layers", layers},
                            {"hidden_size", dim},
                            {"num_attention_heads", heads},
                            {"num_key_value_heads", kv_heads}});
}

ModelCache beside(const ModelCache& own, const std::string& attention) {
  return rows_beside(own, attention, 1 << 17).front().cache;
}

// Each kind with its defaults and with numbers in its word; and patterns.
TEST(RowsBesideAModel, AreAsLargeAsTheCachesThatAModelOfItsSizesAllocates) {
  std::vector<std::string> attentions = {"mhax8",
                                         "gqa4",
                                         "gqa2x8",
                                         "mqax32",
                                         "mfa24",
                                         "gta4",
                                         "mla24+6",
                                         "dsa40+10",
                                         "tpa3",
                                         "fox2",
                                         "v4@8",
                                         "hca4@8",
                                         "delta12",
                                         "csa4+4@8",
                                         "mqa/share",
                                         "latent-bias5",
                                         "kda12",
                                         "mqa@6",
                                         "gqa2@4/mha:tie-kv=on",
                                         "3*delta/mla24+6"};
  for (const AttentionKind* kind : attention_kinds()) attentions.emplace_back(kind->name);
  for (const std::string& attention : attentions) {
    const json sizes = {
        {"layers", 4}, {"dim", 64}, {"heads", 4}, {"context", 20}, {"attention", attention}};
    const LanguageModel model(resolve_model(Given(model_settings(), sizes)), 5);
    const ModelCache other = beside(llama_of(4, 64, 4, 2), attention);
    for (const CacheType type : {CacheType::real, CacheType::bf16, CacheType::int8}) {
      Index allocated = 0;
      for (const LayerCache& layer : make_caches(model.plan(), {.capacity = 20, .rounding = type}))
        allocated += layer.bytes();
      EXPECT_EQ(other.bytes(20, type).total(), allocated) << attention;
    }
  }
}

// Heads 32 and 5 wide: less than the rotary keys of released latents, and odd.
TEST(RowsBesideAModel, NeedNoLargeModel) {
  for (const auto& [dim, heads] : {std::pair{64, 2}, {10, 2}}) {
    for (const AttentionKind* kind : attention_kinds())
      EXPECT_EQ(message_of([&, d = dim, h = heads] {
                  beside(llama_of(2, d, h, h), std::string(kind->name));
                }),
                "no error");
  }
}

TEST(RowsBesideAModel, KeepWindowsStatesAndSharedLayers) {
  constexpr Index kTokens = 1 << 17;
  const auto bytes = [](const ModelCache& cache) { return cache.bytes(kTokens, CacheType::bf16); };
  for (const auto& [name, attention] : {std::pair{"gpt-oss-20b", "gqa8"},
                                        {"gemma-3-27b", "gqa16"},
                                        {"jamba-v0.1", "gqa8"},
                                        {"gemma-3n-e4b", "gqa2"},
                                        {"kimi-linear-48b", "mla512+64"},
                                        {"starcoder2-15b", "gqa4"}}) {
    const ModelCache own = read_config_cache(released_model(name).config);
    EXPECT_EQ(bytes(beside(own, attention)).total(), bytes(own).total()) << name;
  }
  for (const auto& [name, replaced] : {std::pair{"gpt-oss-20b", 12},
                                       {"gemma-3-27b", 10},
                                       {"jamba-v0.1", 4},
                                       {"kimi-linear-48b", 7}}) {
    const ModelCache own = read_config_cache(released_model(name).config);
    const CostRow row = rows_beside(own, "mla100+20", kTokens).front();
    EXPECT_EQ(row.replaced, replaced) << name;
    EXPECT_EQ(bytes(row.cache).growing, Count(replaced) * kTokens * (2 * 120)) << name;
    EXPECT_EQ(bytes(row.cache).windowed, bytes(own).windowed) << name;
    EXPECT_EQ(bytes(row.cache).once, bytes(own).once) << name;
    EXPECT_EQ(row.label(), "mla100+20 in " + std::to_string(replaced) + " of " +
                               std::to_string(own.layers.size()) + " layers");
  }
  // All layers have windows, and a window of its own has priority.
  const ModelCache windows = read_config_cache(released_model("starcoder2-15b").config);
  EXPECT_EQ(bytes(beside(windows, "mla100+20")).total(), 40 * 4096 * 2 * 120);
  EXPECT_EQ(bytes(beside(windows, "mqa@1024")).total(), 40 * 1024 * 2 * 256);
  EXPECT_THROW(beside(read_config_cache(released_model("mamba-2.8b").config), "mqa"), SettingError);
}

// Full layers share rows of full ones, values stay narrower than keys, and layers have the heads of
// their own.
TEST(RowsBesideAModel, TakeTheSizesOfTheLayersThatTheyReplace) {
  constexpr Index kTokens = 1 << 17;
  const ModelCache gemma = read_config_cache(released_model("gemma-3-27b").config);
  const CacheSizes shared = beside(gemma, "mqa/share").bytes(kTokens, CacheType::bf16);
  EXPECT_EQ(shared.growing, Count(5) * kTokens * (2 * 2 * 128));
  EXPECT_EQ(shared.windowed, Count(26) * 1024 * (2 * 2 * 128));
  ModelCache one = llama_of(2, 64, 4, 2);
  one.layers.front().parts = {{"k", 2, 16}, {"v", 2, 8}};
  one.layers.back().heads = 8;
  EXPECT_EQ(beside(one, "mha").per_token(), 4 * (16 + 8) + 8 * (16 + 16));
  EXPECT_EQ(beside(one, "gqa2").per_token(), 2 * (16 + 8) + 2 * (16 + 16));
}

TEST(RowsBesideAModel, HaveTheLatentsOfTheModelOrSayWhichTheyHave) {
  const auto row = [](const char* model, const char* attention) {
    return rows_beside(read_config_cache(released_model(model).config), attention, 100).front();
  };
  for (const auto& [model, attention] :
       {std::pair{"deepseek-v3", "mla"}, {"deepseek-v3.2", "dsa"}}) {
    const ModelCache own = read_config_cache(released_model(model).config);
    EXPECT_EQ(row(model, attention).cache.per_token(), own.per_token());
  }
  EXPECT_EQ(row("deepseek-v3", "mla").name, "mla512+64");
  EXPECT_EQ(row("deepseek-v3", "dsa").defaults, "dsa512+64:index-head-dim=64");
  EXPECT_EQ(row("llama-3.1-8b", "mla").defaults, "mla192+64");
  EXPECT_EQ(row("gpt-oss-20b", "mfa").defaults, "mfa90");  // 2 dim / heads
  for (const char* attention : {"mla512+64", "mha"})
    EXPECT_EQ(row("llama-3.1-8b", attention).defaults, "");
}

TEST(RowsBesideAModel, HaveCostsWhereAllLayersAreThoseOfKnownSettings) {
  const ModelFile& deepseek = released_model("deepseek-v3");
  const ModelCache own = read_config_cache(deepseek.config);
  const Given known(model_settings(), deepseek.settings);
  for (const char* attention : {"mla512+64", "mla"}) {
    const auto rows = rows_beside(own, attention, 100, known);
    ASSERT_EQ(rows.size(), 3u);  // as trained, absorbed and merged
    EXPECT_TRUE(rows.back().is_form);
    EXPECT_EQ(rows.front().costs->parameters, kPublishedWeights.at("deepseek-v3")) << attention;
  }
  EXPECT_FALSE(rows_beside(own, "mha", 100).front().costs);
  const ModelFile& windows = released_model("gpt-oss-20b");
  EXPECT_FALSE(rows_beside(read_config_cache(windows.config), "gqa8", 100,
                           Given(model_settings(), windows.settings))
                   .front()
                   .costs);
}

TEST(ModelCaches, ShareOutTheHeadsOfAllRowsButFactors) {
  for (const auto& [attention, part] : {std::pair{"mha", 4},
                                        {"gqa2", 2},
                                        {"fox", 4},
                                        {"tpa", 1},
                                        {"mla16+4", 1},
                                        {"delta", 4},
                                        {"latent-bias", 4}}) {
    const ModelCache whole = beside(llama_of(4, 64, 4, 2), attention);
    EXPECT_EQ(whole.of_shard(4).bytes(20, {}).total() * part, whole.bytes(20, {}).total())
        << attention;
  }
}

TEST(ModelCaches, AddTheLayersOfADraftHead) {
  ModelCache model = llama_of(4, 64, 4, 2);
  model.draft = {model.layers.front()};
  EXPECT_EQ(model.with_draft().bytes(20, {}).total() * 4, model.bytes(20, {}).total() * 5);
}

}  // namespace
}  // namespace headcount
