// label: unsanitized
// `headcount cost` as its users meet it: tables as JSON, CSV and text, and the sizes that it takes
// from a run and of well-known models.
#include "train/cli/cost_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "models/attention_spec.h"
#include "models/cost.h"
#include "models/released_models.h"
#include "train/table.h"

namespace headcount::cost_tables {
namespace {

TEST_F(CostCommand, WithJsonPrintsOneObjectWithTheDocumentedKeys) {
  for (const auto& [flags, context] : {std::pair{kWidth256, 10}, {kWidth8192, 131072}}) {
    const json object = table(flags);
    std::set<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"cache_dtype", "context", "dtype_bytes", "layers",
                                           "rows", "state_dtype_bytes"}));
    EXPECT_EQ(object.at("context"), context);
    EXPECT_EQ(object.at("dtype_bytes"), 4);
    EXPECT_EQ(object.at("state_dtype_bytes"), 4);
    EXPECT_EQ(object.at("layers"), 4);
    row(object, "mha");
    for (const json& row : object.at("rows")) {
      for (const std::string& key : kRowKeys) {
        EXPECT_EQ(row.at(key).is_number_integer(), key != "attention") << key;
      }
    }
  }
}

// Delta keeps states alone, which no type of cache rounds.
TEST_F(CostCommand, SaysWhatOfACacheIsKeptInWhichType) {
  const json states = row(table(kWidth256 + "--layers 7"), "delta").at("cache_bytes");
  for (const auto& [dtype, said] :
       {std::pair{"f32", "4 bytes a number (f32), states 4 (f32)"},
        {"bf16", "2 bytes a number (bf16), states 4 (f32)"},
        {"f16", "2 bytes a number (f16), states 4 (f32)"},
        {"int8", "1 byte a number and 2 a row (int8), states 4 (f32)"}}) {
    const std::string flags = kWidth256 + "--layers 7 --cache-dtype " + dtype;
    EXPECT_NE(output(flags).find(std::string("Cached rows of tokens take ") + said + ".\n"),
              std::string::npos)
        << output(flags);
    EXPECT_EQ(row(table(flags), "delta").at("cache_bytes"), states) << dtype;
    EXPECT_EQ(table(flags).at("state_dtype_bytes"), 4) << dtype;
  }
}

// Rows of 32 numbers, pooled over 8 tokens beside a window of 4; an open block has 7 tokens at most
// and keeps 2 x 32 numbers of each.
TEST_F(CostCommand, NamesTheFractionOfARowTheWindowAndTheOpenBlock) {
  const std::string flags =
      "--layers 2 --dim 64 --heads 4 --context 64 --window 4 --cache-dtype f16 --compress ";
  const json hca = row_with_window(flags + "8", "hca");
  EXPECT_EQ(hca.at("cache_elements_per_token_per_layer"), 32);
  EXPECT_EQ(hca.at("cache_bytes"), 2 * (2 * (4 * 32 + 64 * 4) + 4 * 7 * 2 * 32));
  // A block of 64 is one row at the context of 64, and its open block has 63 tokens.
  EXPECT_EQ(row_with_window(flags + "64", "hca").at("cache_bytes"),
            2 * (2 * (4 * 32 + 32) + 4 * 63 * 2 * 32));
  const std::string text = cost(flags + "8 --wide").out;
  EXPECT_NE(text.find("note: hca: a --window of 4 is shorter than an open block of 8 tokens"),
            std::string::npos)
      << text;
}

TEST_F(CostCommand, WithCsvPrintsTheRowsOfItsJson) {
  const auto object = nlohmann::ordered_json::parse(output(kWidth8192 + "--format json"));
  EXPECT_EQ(output(kWidth8192 + "--format csv"), data_table(object.at("rows"), Format::csv));
}

// Rows are the lines whose first word is an attention; a second table follows, of caches.
TEST_F(CostCommand, PrintsATableWithOneRowForEachAttention) {
  const std::string text = output(kWidth8192 + "--wide");
  Names rows;
  for (const std::string& line : lines_of(text)) {
    const std::string first = line.substr(0, line.find(' '));
    if (std::ranges::count(kAttentions, first) > 0) rows.push_back(first);
  }
  ASSERT_GE(rows.size(), kAttentions.size());
  rows.resize(kAttentions.size());
  EXPECT_EQ(rows, kAttentions);
  for (const char* const part : {"4 layers", "8192", "131072", "32 GiB", "as published"}) {
    const bool expected = std::string(part) != "as published";  // it is nobody's model
    EXPECT_EQ(text.find(part) != std::string::npos, expected) << part << "\n" << text;
  }
}

TEST_F(CostCommand, ShowsUsualAttentionsAndTheOneAskedFor) {
  const std::string text = output("--attention fox");
  for (const char* const row : {"\nmha ", "\nmla-merged ", "\nfox "})
    EXPECT_NE(text.find(row), std::string::npos) << text;
  EXPECT_EQ(text.find("\nmfa "), std::string::npos) << text;
  EXPECT_TRUE(
      text.ends_with("\nother attentions, see --wide: mfa, gta, dsa, tpa, latent-bias, v4, hca, "
                     "csa, delta, kda\n"))
      << text;
}

TEST_F(CostCommand, TakesTheSizesOfARun) {
  ASSERT_EQ(folder_
                .train("--steps 1 --quiet --out run --attention mla --layers 2 --kv-rank 6 "
                       "--rope-dim 4 --q-rank 5")
                .exit_code,
            0);
  const json object = table("--from run");
  EXPECT_EQ(object.at("layers"), 2);
  EXPECT_EQ(object.at("context"), 16);
  EXPECT_EQ(row(object, "mha").at("params_per_layer"), 4 * 16 * 16);
  const json mla = row(object, "mla");
  EXPECT_EQ(mla.at("cache_bytes"), 2 * (6 + 4) * 16 * 4);
  // q_a, q_b, kv_a, kv_b and output projection, two norms; heads are 8 wide.
  EXPECT_EQ(mla.at("params_per_layer"),
            16 * 5 + 5 * 2 * 12 + 16 * 10 + 6 * 2 * 16 + 16 * 16 + 5 + 6);
  EXPECT_EQ(table("--from run --context 99").at("context"), 99);
  EXPECT_EQ(row(table("--kv-rank 8 --from run"), "mla").at(kRowKeys[5]), 8 + 4);
}

// What a run's attention settled, such as wide heads of v4 or the number in mfa8, is not what
// others would have. A width of heads that was chosen beside the attention is.
TEST_F(CostCommand, GivesOtherAttentionsThanThatOfARunTheirOwnSizes) {
  const std::string sizes = "--layers 1 --dim 16 --heads 4 --context 16";
  const json plain = table(sizes);
  for (const std::string attention : {"mha", "v4", "mfa8"}) {
    const std::string run = attention + "-run";
    ASSERT_EQ(
        folder_.train("--steps 1 --quiet " + sizes + " --attention " + attention + " --out " + run)
            .exit_code,
        0);
    const json of_run = table("--from " + run);
    for (const char* other : {"mqa", "mfa", "hca"})
      EXPECT_EQ(row(of_run, other), row(plain, other)) << attention;
    EXPECT_EQ(row(table("--head-dim 12 --from " + run), "mqa"),
              row(table(sizes + " --head-dim 12"), "mqa"));
  }
  EXPECT_EQ(row(table("--from mfa8-run"), "mfa").at("cache_elements_per_token_per_layer"), 2 * 8);
}

TEST_F(CostCommand, NamesTheFormsOfAllPartsOfAPattern) {
  const std::string table = output("--attention mla16+4/dsa16+4 --layers 2");
  for (const char* forms : {"-absorbed ", "-merged "})
    EXPECT_NE(table.find(std::string("\nmla16+4/dsa16+4") + forms), std::string::npos) << table;
}

TEST_F(CostCommand, MarksTheAttentionThatAModelWasPublishedWith) {
  for (const auto& [flags, marked] :
       {std::pair{"--preset llama-3-8b", Names{"gqa"}},
        {"--preset gpt-2", Names{"mha"}},
        {"--preset deepseek-v3", Names{"mla-absorbed"}},
        {"--preset step-3", Names{"mfa"}},
        {"--preset kimi-linear-48b", Names{"3*kda/mla/3*...2*kda/mla-absorbed"}},
        {"--preset gemma-3-27b", Names{"5*gqa@1024/gqa"}}}) {
    Names found;
    for (const std::string& line : lines_of(output(flags))) {
      if (line.ends_with("as published")) found.push_back(line.substr(0, line.find(' ')));
    }
    EXPECT_EQ(found, marked) << flags;
  }
}

TEST_F(CostCommand, MarksTheAttentionOfARunAndNoneWhereFlagsChangeItsSizes) {
  ASSERT_EQ(folder_.train("--steps 1 --quiet --out run --attention mqa").exit_code, 0);
  EXPECT_NE(output("--from run --context 99").find("<- the run\n"), std::string::npos);
  for (const char* const flags :
       {"--from run --head-dim 6 --rope-dim 6", "--preset llama-3-8b --layers 2",
        "--preset llama-3-8b --attention gqa2"})
    EXPECT_EQ(output(flags).find("<-"), std::string::npos) << flags;
}

TEST_F(CostCommand, GivesTheMeanOfLayersThatAreNotAlike) {
  const json object = table("--attention mqa/share/mqa --layers 4 --dim 16 --heads 2");
  const json pattern = object.at("rows").back();
  // q and o of all layers, k and v of three; each is a number of 16 x 8 or 16 x 16.
  EXPECT_EQ(pattern.at("params_per_layer"), 16 * 16 * 2 + 3 * 2 * 16 * 8 / 4);
  EXPECT_EQ(pattern.at("cache_elements_per_token_per_layer"), 3 * 2 * 8 / 4);
  EXPECT_EQ(table("--attention mqa/share/mqa --layers 5 --dim 16 --heads 2")
                .at("rows")
                .back()
                .at("cache_elements_per_token_per_layer"),
            3 * 2 * 8 / 5.0);
}

TEST_F(CostCommand, CountsTheAttentionThatIsAskedForWithThePresetsSizes) {
  const std::string preset = "--preset kimi-linear-48b";
  const auto pattern_of = [&](const std::string& flags) {
    const json rows = table(flags).at("rows");
    return *std::ranges::find_if(rows, [](const json& row) {
      return row.at("attention").get<std::string>().ends_with("delta/mla") ||
             row.at("attention").get<std::string>().ends_with("kda/mla");
    });
  };
  const json own = pattern_of(preset), asked = pattern_of(preset + " --attention delta/mla");
  EXPECT_EQ(own.at("attention").get<std::string>().find("3*kda/mla/"), 0u);
  EXPECT_NEAR(own.at("params_per_layer"), 36.8e6, 0.05e6);
  EXPECT_EQ(asked.at("attention"), "delta/mla");
  EXPECT_GT(asked.at("params_per_layer"), 38e6);
}

TEST_F(CostCommand, LeavesOutAnAttentionThatDoesNotFitAndSaysWhy) {
  const ProgramResult result = cost("--dim 7 --heads 7 --head-dim 4 --format json");
  EXPECT_EQ(result.exit_code, 0);
  const Names left_out = lines_of(result.err);
  ASSERT_EQ(left_out.size(), 2u) << result.err;
  EXPECT_TRUE(left_out[0].starts_with("left out gqa: ")) << result.err;
  EXPECT_TRUE(left_out[1].starts_with("left out gta: ")) << result.err;
  for (const std::string& line : left_out) EXPECT_NE(line.find("--kv-heads"), std::string::npos);
  const json object = json::parse(result.out);
  Names names, expected = kAttentions;
  for (const json& row : object.at("rows")) names.push_back(row.at("attention"));
  std::erase(expected, "gqa");
  std::erase(expected, "gta");
  EXPECT_EQ(names, expected);
}

TEST_F(CostCommand, HelpNamesTheModels) {
  const std::string help = output("--help");
  for (const ReleasedModel& model : known_models())
    EXPECT_NE(help.find(model.name), std::string::npos) << model.name;
}

TEST_F(CostCommand, TablesFitTheTerminalUnlessWideOnesAreWanted) {
  const auto widths = [](const std::string& text) {
    std::vector<std::size_t> all;
    for (const std::string_view line : lines_of(text))
      if (!line.starts_with("note: ")) all.push_back(character_count(line));
    return all;
  };
  const std::string usual = output("--preset deepseek-v3"),
                    wide = output("--preset deepseek-v3 --wide");
  EXPECT_LE(std::ranges::max(widths(usual)), 100u) << usual;
  EXPECT_NE(usual.find("left out, see --wide: expansion MACs/token"), std::string::npos) << usual;
  EXPECT_GT(std::ranges::max(widths(wide)), 100u) << wide;
  EXPECT_EQ(wide.find("left out"), std::string::npos) << wide;
}

}  // namespace
}  // namespace headcount::cost_tables
