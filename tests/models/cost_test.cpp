// label: unsanitized
// What the cost model says, against published tables and real layers, and where its numbers end.
#include "models/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/products.h"
#include "models/cost_rows.h"
#include "models/language_model.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

constexpr std::int64_t kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;

struct PublishedFigures {
  std::string attention;
  std::int64_t parameters, projections = 0, cache = 0, prefill = 0, decode = 0;  // 0: not published
};

void expect_published(const json& settings, Index context,
                      const std::vector<PublishedFigures>& rows) {
  const CostRows table = all_rows(with(settings), context);
  for (const PublishedFigures& published : rows) {
    const Costs& costs = table.at(published.attention).costs;
    for (const auto& [figure, count] :
         {std::pair{published.parameters, costs.parameters},
          {published.projections, costs.linear_macs_per_token * context},
          {published.cache, costs.cache_elements},
          {published.prefill, costs.prefill_attention_macs},
          {published.decode, costs.decode_attention_macs}}) {
      if (figure > 0) {
        EXPECT_EQ(count, figure) << published.attention;
      }
    }
  }
}

// The blog's "MLA absorbed" has kv_b_proj merged into other matrices. Norms of latents, on by
// default, are merged too and add nothing.
TEST(CostTable, HasTheFiguresOfAnArticleAndOfABlog) {
  expect_published({{"layers", 1},
                    {"dim", 256},
                    {"heads", 8},
                    {"kv-heads", 4},
                    {"bias", "on"},
                    {"kv-rank", 64},
                    {"q-rank", 64},
                    {"nope-dim", 16},
                    {"v-dim", 16},
                    {"rope-dim", 26},
                    {"latent-norm", "off"}},
                   10,
                   {{"mha", 263'168, 2'621'440},
                    {"mqa", 148'032, 1'474'560},
                    {"gqa", 197'376, 1'966'080},
                    {"mla", 111'082, 1'100'800}});
  expect_published({{"layers", 1},
                    {"dim", 8192},
                    {"heads", 64},
                    {"head-dim", 128},
                    {"kv-heads", 8},
                    {"kv-rank", 512},
                    {"rope-dim", 0}},
                   131'072,
                   {{"mha", 256 * kMega, 0, 2 * kGiga, 256 * kTera, 2 * kGiga},
                    {"mqa", 130 * kMega, 0, 32 * kMega, 256 * kTera, 2 * kGiga},
                    {"gqa", 144 * kMega, 0, 256 * kMega, 256 * kTera, 2 * kGiga},
                    {"mla-merged", 516 * kMega, 0, 64 * kMega, 1024 * kTera, 8 * kGiga}});
}

TEST(CostTable, HasEveryAttentionInTheRegistrysOrderInEachForm) {
  std::vector<std::string> left_out, expected, names;
  for (const AttentionKind* kind : attention_kinds()) {
    expected.emplace_back(kind->name);
    for (const std::string latent : {"mla", "dsa"}) {
      if (kind->name == latent)
        expected.insert(expected.end(), {latent + "-absorbed", latent + "-merged"});
    }
  }
  for (const CostRow& row : cost_table(with({}), 1, {}, left_out)) names.push_back(row.attention);
  EXPECT_EQ(names, expected);
}

TEST(CostTable, GatesTheKindsThatThePatternGates) {
  const json pattern = {{"attention", "3*delta/gqa2"}, {"layers", 4}, {"dim", 128}};
  json gated = pattern;
  gated["gate"] = "on";
  const CostRows plain_rows = all_rows(with(pattern), 8), gated_rows = all_rows(with(gated), 8);
  EXPECT_EQ(gated_rows.at("delta").costs.parameters, plain_rows.at("delta").costs.parameters);
  EXPECT_EQ(gated_rows.at("gqa").costs.parameters,
            plain_rows.at("gqa").costs.parameters + 4 * 128 * 128);
  json windows = pattern;
  windows["window"] = 4;
  EXPECT_TRUE(all_rows(with(windows), 8).contains("delta"));
}

CostRow row_of(const Given& given, Index context, std::string_view attention) {
  std::vector<std::string> left_out;
  const std::vector<CostRow> rows = cost_table(given, context, {}, left_out);
  const auto row = std::ranges::find(rows, attention, &CostRow::attention);
  if (row == rows.end()) throw std::runtime_error("no row of " + std::string(attention));
  return *row;
}

// Costs of settings as config.json has them: parameters of attention and of Canon layers, and
// the products of a forward pass but for those of feed-forward layers and logits. All pairs of so
// few tokens are in one tile, of which causality skips none.
TEST(CostsOfAPattern, AreThoseOfItsLayersAndCanonLayers) {
  constexpr Index kBatch = 2, kLength = 16, kTokens = kBatch * kLength;
  for (const std::string spec :
       {"mqa/share", "gqa2x4/2*share/mha", "mla/share/gqa", "mlax6/latent-bias", "hca8@16/share",
        "csa4+4@16/share", "mqa:canon=ABCD/delta:canon=D"}) {
    LanguageModel model(resolve_model(with({{"layers", 7},
                                            {"dim", 24},
                                            {"heads", 4},
                                            {"context", kLength},
                                            {"ffn-dim", 10},
                                            {"attention", spec}})),
                        3);
    const Costs costs = row_of(with(model.plan()->settings), kLength, spec).costs;
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
    const Count macs =
        Count(kBatch) * (costs.linear_macs_per_token * kLength + costs.prefill_attention_macs);
    EXPECT_EQ(counter.count() - kTokens * 24 * (7 * 3 * 10 + 3), macs.value()) << spec;
  }
}

// Among 12 layers 4 are global, 4 have windows of 16 tokens and 4 share; a pair is 2 x 4 x 8 MACs.
TEST(CostsOfAPattern, CountTheTokensThatWindowsShow) {
  const Given config =
      with({{"layers", 12}, {"dim", 32}, {"heads", 4}, {"attention", "mqa@16/share/mqa"}});
  EXPECT_EQ(row_of(config, 100, "mqa@16/share/mqa").costs.decode_attention_macs,
            2 * 4 * 8 * (8 * 16 + 4 * 100));
}

// Expanded, k and v of all cached tokens are computed for one more, and by tpa from its factors;
// absorbed, and merged, nothing is. Decoding chooses the second.
TEST(CostTable, TellsTheFormsOfMlaApart) {
  const CostRows rows = all_rows(with({{"layers", 1}}), 8);
  for (const auto& [name, decodes, expands] : {std::tuple{"mla", false, true},
                                               {"mla-absorbed", true, false},
                                               {"mla-merged", false, false},
                                               {"tpa", true, true}}) {
    EXPECT_EQ(rows.at(name).decodes, decodes) << name;
    EXPECT_EQ(rows.at(name).costs.decode_expansion_macs != Count(0), expands) << name;
  }
}

TEST(CostTable, WithoutAnyKindThatFitsIsAnError) {
  std::vector<std::string> left_out;
  EXPECT_THROW(cost_table(with({{"dim", 256}, {"heads", 3}}), 8, {}, left_out), ShapeError);
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
  EXPECT_EQ(all_rows(with(wide), kMega / 2).at("mha").costs.prefill_attention_macs,
            std::int64_t{1} << 60);  // 2^22 a pair, 2^19 tokens
  struct TooLarge {
    std::string figure;
    json settings;
    Index layers, context;
  };
  constexpr Index kHuge = (Index{1} << 31) - 2;
  for (const auto& [figure, settings, layers, context] :
       {TooLarge{"prefill", wide, 1, 1 << 24},
        {"parameters", {{"dim", kMega}, {"heads", kHuge}, {"head-dim", 4096}}, 1, 1},
        {"head widths", {{"dim", 2}, {"heads", kHuge}, {"head-dim", kHuge}}, 1, 1},
        {"mla",
         {{"dim", 2}, {"heads", 2}, {"kv-rank", kHuge}, {"v-dim", kHuge}, {"attention", "mla"}},
         1,
         1},
        {"bytes of all layers", {{"dim", 2}, {"heads", kMega}, {"head-dim", 1024}}, 10000, 1}}) {
    Given config = with(settings);
    config.put("layers", layers);
    std::vector<std::string> left_out;
    EXPECT_NE(message_of<ShapeError>([&, at = context] {
                cost_table(config, at, {}, left_out);
              }).find("overflow"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace headcount
