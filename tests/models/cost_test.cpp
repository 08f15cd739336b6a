// label: unsanitized
// What the cost model says, against published tables, well-known models and real layers, and where
// its numbers end.
#include "models/cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/products.h"
#include "models/config_cache.h"
#include "models/language_model.h"
#include "models/released_models.h"
#include "nn/attention/costs.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

using Number = std::int64_t;

// Rows of kinds that all have the same sizes, by name.
std::map<std::string, CostRow> table_of(const json& settings, Index context,
                                        const CacheRounding& rounding = {}) {
  const Given given(model_settings(), settings);
  std::vector<std::string> left_out;
  std::map<std::string, CostRow> rows;
  for (const CostRow& row : cost_table(given, given, context, rounding, left_out))
    rows.emplace(row.attention, row);
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
    const CostRow& costs = table.at(published.attention);
    for (const auto& [figure, count] :
         {std::pair{published.parameters, costs.parameters},
          {published.projections, costs.linear_macs_per_token * context},
          {published.cache, costs.cache_elements},
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

TEST(CostTable, GatesTheKindsThatThePatternGates) {
  const json pattern = {{"attention", "3*delta/gqa2"}, {"layers", 4}, {"dim", 128}};
  const auto plain = table_of(pattern, 8), gated = table_of(with(pattern, {{"gate", "on"}}), 8);
  EXPECT_EQ(gated.at("delta").parameters, plain.at("delta").parameters);
  EXPECT_EQ(gated.at("gqa").parameters, plain.at("gqa").parameters + 4 * 128 * 128);
  EXPECT_TRUE(table_of(with(pattern, {{"window", 4}}), 8).contains("delta"));
}

// With a gate before o_proj, what expands the values cannot be multiplied into it.
TEST(CostTable, HasAGatesMatrixAndInMergedMlaTheOneThatExpandsValues) {
  const json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                      {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  const auto plain = table_of(sizes, 1), gated = table_of(with(sizes, {{"gate", "on"}}), 1);
  const Index gate = 64 * 4 * 8, o_proj = 64 * 4 * 8, merged_o_proj = 64 * 4 * 32;
  for (const std::string kind : {"mla", "mla-absorbed", "mla-merged"}) {
    const Index more = kind != "mla-merged" ? gate : gate + 32 * 4 * 8 + o_proj - merged_o_proj;
    const Costs &before = plain.at(kind), &after = gated.at(kind);
    EXPECT_EQ(before.expansion_macs == Count(0), kind != "mla") << kind;
    EXPECT_EQ(after.parameters, before.parameters + more) << kind;
    EXPECT_EQ(after.linear_macs_per_token, before.linear_macs_per_token + more) << kind;
  }
}

// A kind that does not fit is left out; the attention that was asked for is refused.
TEST(CostTable, RefusesAPatternWithAPartThatARoundingDoesNotFit) {
  const auto refusal = [](const char* attention, const char* cache) {
    CacheRounding rounding = CacheRounding::parse(cache);
    rounding.all.group = 8;
    return message_of([&] {
      table_of({{"attention", attention}, {"dim", 48}, {"heads", 4}}, 8, rounding);
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
    const Costs costs = table_of(model.plan()->settings, kLength).at(spec);
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
  const CostRow row = table_of(config, 100, CacheType::f16).at("mqa@16/share/mqa");
  EXPECT_EQ(row.decode_macs, 2 * 4 * 8 * (8 * 16 + 4 * 100));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(row.long_cache_bytes[i], 2 * 2 * 8 * (4 * 16 + 4 * long_contexts()[i]));
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
  EXPECT_EQ(table_of(wide, kMega / 2).at("mha").prefill_macs,
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
    {"step-3", Number{61} * 169'347'072}};

// ConfigCache compares the caches of most configurations with those of transformers.
TEST(KnownModels, HaveThePublishedWeightsAndTheCacheOfTheirConfiguration) {
  EXPECT_EQ(known_models().size(), kPublishedWeights.size());
  for (const ReleasedModel& model : known_models()) {
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
}

}  // namespace
}  // namespace headcount
