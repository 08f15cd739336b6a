// label: unsanitized
// What the cost model says, against published tables, well-known models and real layers, and where
// its numbers end.
#include "models/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autograd/products.h"
#include "models/language_model.h"
#include "models/released_models.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

using Number = std::int64_t;

// Rows of kinds that all have the same sizes, by name, and their names in order.
struct Table {
  std::map<std::string, CostRow> rows;
  std::vector<std::string> names, left_out;
};

Table table_of(const json& settings, Index context, const CacheRounding& rounding = {}) {
  const Given given(model_settings(), settings);
  Table table;
  for (const CostRow& row : cost_table(given, given, context, rounding, table.left_out)) {
    table.names.push_back(row.attention);
    table.rows.emplace(row.attention, row);
  }
  return table;
}

Costs costs_of(const json& settings, Index context, const std::string& attention) {
  return table_of(settings, context).rows.at(attention);
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
  const Table table = table_of(json::parse(settings), context);
  for (const PublishedFigures& published : rows) {
    const CostRow& costs = table.rows.at(published.attention);
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

TEST(CostTable, HasEveryAttentionInTheRegistrysOrderInEachForm) {
  std::vector<std::string> expected;
  for (const AttentionKind* kind : attention_kinds()) {
    expected.emplace_back(kind->name);
    for (const std::string latent : {"mla", "dsa"}) {
      if (kind->name == latent)
        expected.insert(expected.end(), {latent + "-absorbed", latent + "-merged"});
    }
  }
  const Table table = table_of({}, 1);
  EXPECT_EQ(table.names, expected);
  EXPECT_EQ(table.left_out, std::vector<std::string>());
}

TEST(CostTable, GatesTheKindsThatThePatternGates) {
  const json pattern = {{"attention", "3*delta/gqa2"}, {"layers", 4}, {"dim", 128}};
  const Table plain = table_of(pattern, 8), gated = table_of(with(pattern, {{"gate", "on"}}), 8);
  EXPECT_EQ(gated.rows.at("delta").parameters, plain.rows.at("delta").parameters);
  EXPECT_EQ(gated.rows.at("gqa").parameters, plain.rows.at("gqa").parameters + 4 * 128 * 128);
  EXPECT_TRUE(table_of(with(pattern, {{"window", 4}}), 8).rows.contains("delta"));
}

// With a gate before o_proj, what expands the values cannot be multiplied into it.
TEST(CostTable, HasAGatesMatrixAndInMergedMlaTheOneThatExpandsValues) {
  const json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                      {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  const Table plain = table_of(sizes, 1), gated = table_of(with(sizes, {{"gate", "on"}}), 1);
  const Index gate = 64 * 4 * 8, o_proj = 64 * 4 * 8, merged_o_proj = 64 * 4 * 32;
  for (const std::string kind : {"mla", "mla-absorbed", "mla-merged"}) {
    const Index more = kind != "mla-merged" ? gate : gate + 32 * 4 * 8 + o_proj - merged_o_proj;
    const Costs &before = plain.rows.at(kind), &after = gated.rows.at(kind);
    EXPECT_EQ(after.parameters, before.parameters + more) << kind;
    EXPECT_EQ(after.linear_macs_per_token, before.linear_macs_per_token + more) << kind;
  }
}

// A kind that does not fit is left out; the attention that was asked for is refused.
TEST(CostTable, RefusesAPatternWithAPartThatDoesNotFit) {
  const auto refusal = [](const char* attention, const char* cache) {
    const json settings = {{"attention", attention}, {"dim", 48}, {"heads", 4}};
    CacheRounding rounding = CacheRounding::parse(cache);
    rounding.all.group = 8;
    return message_of([&] { table_of(settings, 8, rounding); });
  };
  EXPECT_EQ(refusal("mqax16/mha", "f16"), "no error");
  EXPECT_NE(refusal("mha/gqa3", "f16").find("'gqa3': `kv-heads` 3 does not divide"),
            std::string::npos);
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
    const Costs costs = costs_of(model.plan()->settings, kLength, spec);
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
  EXPECT_EQ(costs_of(config, 100, "mqa@16/share/mqa").decode_macs, 2 * 4 * 8 * (8 * 16 + 4 * 100));
}

// Expanded, k and v of all cached tokens are computed for one more, and by tpa from its factors;
// absorbed, and merged, nothing is. Decoding chooses the second.
TEST(CostTable, TellsTheFormsOfMlaApart) {
  const Table table = table_of({{"layers", 1}}, 8);
  for (const auto& [name, decodes, expands] : {std::tuple{"mla", false, true},
                                               {"mla-absorbed", true, false},
                                               {"mla-merged", false, false},
                                               {"tpa", true, true}}) {
    EXPECT_EQ(table.rows.at(name).decodes, decodes) << name;
    EXPECT_EQ(table.rows.at(name).expansion_macs != Count(0), expands) << name;
  }
}

TEST(CostTable, WithoutAnyKindThatFitsIsAnError) {
  EXPECT_THROW(table_of({{"dim", 256}, {"heads", 3}}, 8), ShapeError);
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
  EXPECT_EQ(costs_of(wide, kMega / 2, "mha").prefill_macs,
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

// Sizes of the well-known models, by hand from the tables of their papers.
struct Published {
  std::string name, row;        // row of its attention in the cost table; "": the last one
  Number constant, per_token;   // bytes of a cache, two a number and four a number of a state
  Number attention_parameters;  // of all layers; norms of queries and keys are not counted
};

// Gemma 3: 5 local layers of 1024 tokens and a global one; K and V of 16 heads of 128.
constexpr Number kGemma3 = 2 * 16 * 128 * 2;
// Qwen3-Next: 36 layers with states of 32 heads of 128 x 128 and the last three inputs of their
// convolutions; 12 with 16 gated query heads and K and V of 2 heads of 256.
constexpr Number kNextKeys = 16 * 128, kNextValues = 32 * 128;
constexpr Number kNextState = kNextValues * 128 + 3 * (2 * kNextKeys + kNextValues);
constexpr Number kNextDelta = 2048 * (2 * kNextKeys + 2 * kNextValues) + 2048 * 2 * 32 +
                              4 * (2 * kNextKeys + kNextValues) + 2 * 32 + 128 + kNextValues * 2048;
constexpr Number kNextGated = 3 * 2048 * 16 * 256 + 2 * 2048 * 2 * 256;
// Kimi Linear: 20 layers with states of 32 heads of 128 x 128 and three inputs of convolutions of 4
// taps; low-rank matrices of rank 128 for decays and gate. 7 layers with MLA: latents of 512, one
// rotary key of 64.
constexpr Number kKimiWidth = 32 * 128, kKimiState = kKimiWidth * 128 + 3 * 3 * kKimiWidth;
constexpr Number kKimiKda = 4 * 2304 * kKimiWidth + 2 * (2304 * 128 + 128 * kKimiWidth) +
                            2304 * 32 + 3 * kKimiWidth * 4 + kKimiWidth + 32 + 128;
constexpr Number kKimiMla =
    2304 * 32 * (128 + 64) + 2304 * (512 + 64) + 512 + 512 * 32 * (128 + 128) + kKimiWidth * 2304;
static_assert(kKimiKda == 39'514'272 && (20 * kKimiKda + 7 * kKimiMla) / 27 == 36'818'133);
// gpt-oss: every second layer has a window of 128 tokens; K and V of 8 heads of 64, biases, and a
// sink for each of 64 heads.
constexpr Number kOss = 2 * 8 * 64 * 2;
constexpr Number kOssLayer =
    2 * 2880 * 64 * 64 + 2 * 2880 * 8 * 64 + 64 * 64 + 2 * 8 * 64 + 2880 + 64;
// Gemma 3n: every fifth of 35 layers is global, the others have windows of 512 tokens; the last 15
// share by type, so that 16 local and 4 global layers keep K and V of 2 heads of 256.
constexpr Number kGemma3n = 2 * 2 * 256 * 2;
// DeepSeek-V4: rows of 512 numbers in windows of 128 tokens; 20 layers of csa keep (512 + 128) / 4
// numbers a token, 23 of hca 512 / 128, and numbers of an open block and, csa, of the one before.
constexpr Number kV4Window = 128 * 512, kV4Csa = 640 * (4 * 3 + 2 * 4), kV4Hca = 2 * 127 * 512;
constexpr Number kV4Shared = 4096 * 1024 + 1024 + 1024 * 64 * 512 + 4096 * 512 + 512 +
                             8 * 1024 * 64 / 8 * 512 + 4096 * 8 * 1024 + 64;
constexpr Number kV4OfHca = 2 * 4096 * 512 + 128 * 512 + 512;
constexpr Number kV4OfCsa = 2 * 4096 * 2 * 640 + 4 * 2 * 640 + 640 + 1024 * 64 * 128 + 4096 * 64;
// DeepSeek-V3.2: beside the projections of V3, queries of 64 heads of 128 made of the query latent,
// a weight for each, and index keys of 128 with a LayerNorm.
constexpr Number kDeepSeek = 187'107'328, kIndexer = 1536 * 64 * 128 + 7168 * 64 + 7168 * 128 + 256;

const std::vector<Published> kPublished = {
    {"gpt-2", "mha", 0, 36'864, 12 * Number{2'362'368}},
    {"llama-2-7b", "mha", 0, 512 * 1024, 32 * Number{67'108'864}},
    {"llama-3-8b", "gqa", 0, 128 * 1024, 32 * Number{41'943'040}},
    {"llama-3-70b", "gqa", 0, 320 * 1024, 80 * Number{150'994'944}},
    {"mistral-7b", "gqa", 0, 128 * 1024, 32 * Number{41'943'040}},
    {"qwen3-8b", "gqa", 0, 144 * 1024, 36 * Number{41'943'040}},
    {"deepseek-v2", "mla", 0, 576 * 60 * 2, 60 * Number{149'227'520}},
    {"deepseek-v3", "mla", 0, 70'272, 61 * kDeepSeek},
    {"deepseek-v3.2", "dsa-absorbed", 0, 61 * (512 + 64 + 128) * 2, 61 * (kDeepSeek + kIndexer)},
    {"gemma-3-27b", "5*gqa@1024/gqa", 52 * 1024 * kGemma3, 10 * kGemma3,
     Number{62} * (2 * 5376 * 32 * 128 + 2 * 5376 * 16 * 128)},
    {"qwen3-next-80b", "3*deltax128/gqa", 36 * kNextState * 4, 12 * 2 * 2 * 256 * 2,
     36 * kNextDelta + 12 * kNextGated},
    {"kimi-linear-48b", "3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/2*kda/mla",
     20 * kKimiState * 4, 7 * (512 + 64) * 2, 20 * kKimiKda + 7 * kKimiMla},
    {"gpt-oss-20b", "gqa8@128/gqa8", 12 * 128 * kOss, 12 * kOss, 24 * kOssLayer},
    {"gpt-oss-120b", "gqa8@128/gqa8", 18 * 128 * kOss, 18 * kOss, 36 * kOssLayer},
    {"gemma-3n-e4b", "", 16 * 512 * kGemma3n, 4 * kGemma3n,
     Number{35} * 2 * 2048 * 8 * 256 + Number{20} * 2 * 2048 * 2 * 256},
    {"deepseek-v4", "", 2 * 43 * kV4Window + 4 * (20 * kV4Csa + 23 * kV4Hca),
     2 * (20 * 160 + 23 * 4), 43 * kV4Shared + 23 * kV4OfHca + 20 * kV4OfCsa},
    {"step-3", "mfa", 0, 61 * 2 * 256 * 2,
     61 * (Number{7168} * 2048 + 2048 + 2048 * 64 * 256 + 2 * 7168 * 256 + 64 * 256 * 7168)},
};

TEST(KnownModels, HaveThePublishedSizes) {
  std::vector<std::string> held, known;
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.name);
    held.push_back(published.name);
    const Table table = table_of(known_model(published.name).settings, 131'072, CacheType::bf16);
    const CostRow& row = table.rows.at(published.row.empty() ? table.names.back() : published.row);
    EXPECT_EQ(row.cache_bytes, published.constant + published.per_token * 131'072);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(row.long_cache_bytes[i],
                published.constant + published.per_token * long_contexts()[i]);
    EXPECT_EQ(row.parameters, published.attention_parameters);
  }
  for (const ReleasedModel& model : known_models()) {
    known.push_back(model.name);
    EXPECT_FALSE(model.source.empty()) << model.name;
  }
  std::ranges::sort(held);
  std::ranges::sort(known);
  EXPECT_EQ(known, held);
}

// 64 heads of the indexer score all tokens, 128 heads read 2048 of them.
TEST(KnownModels, CountWhatDeepSeekV32ReadsOfAText) {
  const CostRow row =
      table_of(known_model("deepseek-v3.2").settings, 131'072).rows.at("dsa-absorbed");
  EXPECT_TRUE(row.decodes);
  EXPECT_EQ(row.decode_macs,
            Number{61} * (131'072 * 64 * (128 + 1) + 2048 * 128 * (512 + 64 + 512)));
}

// DeepSeek-V3 as an article's table has it, with wkv_b merged into other matrices.
TEST(KnownModels, CountDeepSeekV3AsItCouldBeMerged) {
  constexpr Number kMerged =
      7168 * 1536 + 1536 * 128 * (512 + 64) + 7168 * (512 + 64) + Number{128} * 512 * 7168;
  static_assert(kMerged == 598'147'072);
  EXPECT_EQ(costs_of(known_model("deepseek-v3").settings, 1, "mla-merged").parameters,
            61 * kMerged);
}

TEST(KnownModels, UnknownNameIsAnErrorThatListsThem) {
  const std::string message = message_of<SettingError>([] { known_model("gpt-9"); });
  EXPECT_NE(message.find("'gpt-9'"), std::string::npos) << message;
  for (const ReleasedModel& model : known_models())
    EXPECT_NE(message.find(model.name), std::string::npos) << message;
}

}  // namespace
}  // namespace headcount
