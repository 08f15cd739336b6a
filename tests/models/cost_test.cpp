// label: unsanitized
// What the cost model says, against published tables, and where its numbers end.
#include "models/cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "models/cost_rows.h"
#include "models/language_model.h"
#include "support/message_of.h"

namespace headcount {
namespace {

constexpr std::int64_t kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;

TEST(CostTable, IsTheArticlesForWidth256) {
  const Given config = with({{"layers", 1},
                             {"dim", 256},
                             {"heads", 8},
                             {"kv-heads", 4},
                             {"bias", "on"},
                             {"kv-rank", 64},
                             {"q-rank", 64},
                             {"nope-dim", 16},
                             {"v-dim", 16},
                             {"rope-dim", 26},
                             {"latent-norm", "off"}});
  const CostRows rows = all_rows(config, 10);
  struct Published {
    std::string attention;
    std::int64_t parameters, macs;
  };
  for (const auto& [attention, parameters, macs] : {Published{"mha", 263'168, 2'621'440},
                                                    {"mqa", 148'032, 1'474'560},
                                                    {"gqa", 197'376, 1'966'080},
                                                    {"mla", 111'082, 1'100'800}}) {
    EXPECT_EQ(rows.at(attention).costs.parameters, parameters) << attention;
    EXPECT_EQ(rows.at(attention).costs.linear_macs_per_token * 10, macs) << attention;
  }
}

// The blog's "MLA absorbed" has kv_b_proj merged into other matrices. Norms of latents, on by
// default, are merged too and add nothing.
TEST(CostTable, IsTheBlogsForWidth8192) {
  const Given config = with({{"layers", 1},
                             {"dim", 8192},
                             {"heads", 64},
                             {"head-dim", 128},
                             {"kv-heads", 8},
                             {"kv-rank", 512},
                             {"rope-dim", 0}});
  const CostRows rows = all_rows(config, 131'072);
  struct Published {
    std::string attention;
    std::int64_t parameters, cache, prefill, decode;
  };
  for (const auto& [attention, parameters, cache, prefill, decode] :
       {Published{"mha", 256 * kMega, 2 * kGiga, 256 * kTera, 2 * kGiga},
        {"mqa", 130 * kMega, 32 * kMega, 256 * kTera, 2 * kGiga},
        {"gqa", 144 * kMega, 256 * kMega, 256 * kTera, 2 * kGiga},
        {"mla-merged", 516 * kMega, 64 * kMega, 1024 * kTera, 8 * kGiga}}) {
    const CostRow& row = rows.at(attention);
    EXPECT_EQ(row.costs.parameters, parameters) << attention;
    EXPECT_EQ(row.costs.cache_elements, cache) << attention;
    EXPECT_EQ(row.costs.prefill_attention_macs, prefill) << attention;
    EXPECT_EQ(row.costs.decode_attention_macs, decode) << attention;
  }
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
  const nlohmann::json pattern = {{"attention", "3*delta/gqa2"}, {"layers", 4}, {"dim", 128}};
  nlohmann::json gated = pattern;
  gated["gate"] = "on";
  const CostRows plain_rows = all_rows(with(pattern), 8), gated_rows = all_rows(with(gated), 8);
  EXPECT_EQ(gated_rows.at("delta").costs.parameters, plain_rows.at("delta").costs.parameters);
  EXPECT_EQ(gated_rows.at("gqa").costs.parameters,
            plain_rows.at("gqa").costs.parameters + 4 * 128 * 128);
  nlohmann::json windows = pattern;
  windows["window"] = 4;
  EXPECT_TRUE(all_rows(with(windows), 8).contains("delta"));
}

// A run's settings as its config.json has them give the parameters of its model.
TEST(CostTable, HasTheParametersOfARunWhateverItSwitchesOn) {
  for (const AttentionKind* kind : attention_kinds()) {
    const Given plain =
        with({{"attention", kind->name}, {"layers", 2}, {"dim", 32}, {"head-dim", 8}});
    for (const Setting& setting : model_settings()) {
      const nlohmann::json before = setting.standard.value;
      if (!setting.is_for(kind->name) || !std::holds_alternative<Choices>(setting.takes) ||
          (before != "on" && before != "off"))
        continue;
      for (const std::string value : {"on", "off"}) {
        if (setting.name == "sinks" && value == "on" && !kind->attends) continue;
        if (setting.name == "qk-norm" && value == "on" && !kind->no_qk_norm.empty()) continue;
        Given config = plain;
        config.put(setting.name, value);
        const LanguageModel model(resolve_model(config), 3);
        Index parameters = 0;
        for (std::size_t i = 0; i < model.parameters().size(); ++i) {
          if (model.parameters().name({i}).find(".self_attn.") != std::string::npos)
            parameters += model.parameters().shape({i}).size();
        }
        std::vector<std::string> left_out;  // kinds that refuse the setting
        const std::vector<CostRow> rows = cost_table(with(model.plan()->settings), 8, {}, left_out);
        const auto row = std::ranges::find(rows, kind->name, &CostRow::attention);
        ASSERT_NE(row, rows.end()) << kind->name;
        EXPECT_EQ(row->costs.parameters, parameters)
            << kind->name << ", " << setting.name << " " << value;
      }
    }
  }
}

// Expanded, k and v of all cached tokens are computed for one more; absorbed, and merged, nothing
// is. Decoding chooses the second.
TEST(CostTable, TellsTheFormsOfMlaApart) {
  const CostRows rows = all_rows(with({{"layers", 1}}), 8);
  for (const auto& [name, decodes, expands] : {std::tuple{"mla", false, true},
                                               {"mla-absorbed", true, false},
                                               {"mla-merged", false, false}}) {
    EXPECT_EQ(rows.at(name).decodes, decodes) << name;
    EXPECT_EQ(rows.at(name).costs.decode_expansion_macs != Count(0), expands) << name;
  }
  EXPECT_EQ(rows.at("mla-absorbed").costs.parameters, rows.at("mla").costs.parameters);
  EXPECT_TRUE(rows.at("mha").decodes);
  EXPECT_TRUE(rows.at("tpa").decodes);
}

TEST(CostTable, WithoutAnyKindThatFitsIsAnError) {
  std::vector<std::string> left_out;
  EXPECT_THROW(cost_table(with({{"dim", 256}, {"heads", 3}}), 8, {}, left_out), ShapeError);
}

TEST(Counts, ThatFitAreExact) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Count(kMost - 1) + 1, kMost);
  EXPECT_EQ(Count(kMost / 7) * 7, kMost);  // 2^63 - 1 is a multiple of 7
}

TEST(Counts, ThatDoNotFitAreErrors) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Count(kMost) + 1, ShapeError);
  EXPECT_THROW(Count(kMost / 7 + 1) * 7, ShapeError);
  EXPECT_THROW(Count(std::int64_t{1} << 32) * (std::int64_t{1} << 32), ShapeError);  // wraps to 0
  Count sum = kMost;
  EXPECT_THROW(sum += 1, ShapeError);
}

// Each figure alone, by sizes at which those before it still fit.
TEST(CostTable, RefusesWhatOverflowsInsteadOfWrapping) {
  const nlohmann::json wide = {{"layers", 1}, {"dim", 2}, {"heads", kMega}, {"head-dim", 2}};
  EXPECT_EQ(all_rows(with(wide), kMega / 2).at("mha").costs.prefill_attention_macs,
            std::int64_t{1} << 60);  // 2^22 a pair, 2^19 tokens
  struct TooLarge {
    std::string figure;
    nlohmann::json settings;
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
