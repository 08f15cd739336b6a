// label: unsanitized
// `headcount cost` as its users meet it: tables as JSON, CSV and text, and the sizes that it takes
// from a run and of well-known models. tests/models holds the figures against published ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "models/released_models.h"
#include "train/run_program.h"
#include "train/table.h"

namespace headcount {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const std::string kWidth8192 =
    "--dim 8192 --heads 64 --head-dim 128 --kv-heads 8 --kv-rank 512 --rope-dim 0 "
    "--context 131072 ";

class CostCommand : public testing::Test {
 protected:
  // Standard output of a call that must succeed and warn of nothing.
  std::string output(const std::string& flags) const {
    const ProgramResult result = folder_.done("cost " + flags);
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  json table(const std::string& flags) const {
    return json::parse(output(flags + " --format json"));
  }
  static Names names(const json& table) {
    Names all;
    for (const json& row : table.at("rows")) all.push_back(row.at("attention"));
    return all;
  }
  static json row(const json& table, const std::string& attention) {
    const Names all = names(table);
    const auto at = std::ranges::find(all, attention) - all.begin();
    return table.at("rows").at(static_cast<std::size_t>(at));
  }

  TrainFolder folder_;
};

TEST_F(CostCommand, WithJsonPrintsOneObjectWithTheDocumentedKeys) {
  const json object = table(kWidth8192);
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"cache_dtype", "context", "dtype_bytes", "layers", "rows",
                                         "state_dtype_bytes"}));
  for (const auto& [key, value] : {std::pair{"context", 131072}, {"dtype_bytes", 4}, {"layers", 4}})
    EXPECT_EQ(object.at(key), value);
  for (const json& row : object.at("rows")) {
    for (const char* key :
         {"params_per_layer", "linear_macs_per_token_per_layer", "prefill_attention_macs_per_layer",
          "decode_attention_macs_per_layer", "cache_elements_per_token_per_layer",
          "cache_elements_per_layer", "cache_bytes", "cache_bytes_at_4096", "cache_bytes_at_131072",
          "cache_bytes_at_1048576"})
      EXPECT_TRUE(row.at(key).is_number_integer()) << key;
  }
}

// Delta keeps states alone, which no type of cache rounds.
TEST_F(CostCommand, SaysWhatOfACacheIsKeptInWhichType) {
  const json states = row(table(""), "delta").at("cache_bytes");
  for (const auto& [dtype, said] : {std::pair{"f32", "4 bytes a number (f32)"},
                                    {"f16", "2 bytes a number (f16)"},
                                    {"int8", "1 byte a number and 2 a row (int8)"}}) {
    const std::string flags = "--cache-dtype " + std::string(dtype);
    expect_parts(output(flags),
                 {"Cached rows of tokens take " + std::string(said) + ", states 4 (f32).\n"});
    EXPECT_EQ(row(table(flags), "delta").at("cache_bytes"), states) << dtype;
    EXPECT_EQ(table(flags).at("state_dtype_bytes"), 4) << dtype;
  }
  const std::string open_block =
      "cost --layers 2 --dim 64 --heads 4 --context 64 --window 4 --compress 8 --wide";
  expect_parts(folder_.done(open_block).out,
               {"note: hca: a --window of 4 is shorter than an open block of 8 tokens"});
}

// Rows are the lines whose first word is an attention; a second table follows, of caches.
TEST_F(CostCommand, PrintsTheRowsOfItsJsonAsCsvAndAsATable) {
  const auto object = nlohmann::ordered_json::parse(output(kWidth8192 + "--format json"));
  EXPECT_EQ(output(kWidth8192 + "--format csv"), data_table(object.at("rows"), Format::csv));
  const std::string text = output(kWidth8192 + "--wide");
  const Names expected = names(object);
  Names rows;
  for (const std::string& line : lines_of(text)) {
    const std::string first = line.substr(0, line.find(' '));
    if (std::ranges::count(expected, first) > 0) rows.push_back(first);
  }
  ASSERT_GE(rows.size(), expected.size());
  rows.resize(expected.size());
  EXPECT_EQ(rows, expected);
  expect_parts(text, {"4 layers", "8192", "131072", "32 GiB"});
}

TEST_F(CostCommand, ShowsUsualAttentionsAndTheOneAskedFor) {
  const std::string text = output("--attention fox");
  expect_parts(text, {"\nmha ", "\nmla-merged ", "\nfox "});
  EXPECT_EQ(text.find("\nmfa "), std::string::npos) << text;
  EXPECT_TRUE(
      text.ends_with("\nother attentions, see --wide: mfa, gta, dsa, tpa, latent-bias, v4, hca, "
                     "csa, delta, kda\n"))
      << text;
  expect_parts(output("--attention mla16+4/dsa16+4 --layers 2"),
               {"\nmla16+4/dsa16+4-absorbed ", "\nmla16+4/dsa16+4-merged "});
}

TEST_F(CostCommand, TakesTheSizesOfARun) {
  folder_.trained(
      "--steps 1 --quiet --out run --attention mla --layers 2 --kv-rank 6 --rope-dim 4 --q-rank 5");
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
  EXPECT_EQ(row(table("--kv-rank 8 --from run"), "mla").at("cache_elements_per_token_per_layer"),
            8 + 4);
}

// What a run's attention settled, such as wide heads of v4 or the number in mfa8, is not what
// others would have. A width of heads that was chosen beside the attention is.
TEST_F(CostCommand, GivesOtherAttentionsThanThatOfARunTheirOwnSizes) {
  const std::string sizes = "--layers 1 --dim 16 --heads 4 --context 16";
  const json plain = table(sizes), narrow = table(sizes + " --head-dim 12");
  for (const std::string attention : {"mha", "v4", "mfa8"}) {
    folder_.trained("--steps 1 --quiet " + sizes + " --attention " + attention + " --out " +
                    attention);
    const json of_run = table("--from " + attention);
    for (const char* other : {"mqa", "mfa", "hca"})
      EXPECT_EQ(row(of_run, other), row(plain, other)) << attention;
    EXPECT_EQ(row(table("--head-dim 12 --from " + attention), "mqa"), row(narrow, "mqa"));
  }
  EXPECT_EQ(row(table("--from mfa8"), "mfa").at("cache_elements_per_token_per_layer"), 2 * 8);
}

TEST_F(CostCommand, MarksTheAttentionOfAModelOrRunUnlessFlagsChangeItsSizes) {
  folder_.trained("--steps 1 --quiet --out run --attention mqa");
  for (const auto& [flags, marked] :
       {std::pair{"--preset llama-3-8b", Names{"gqa"}},
        {"--preset deepseek-v3", Names{"mla-absorbed"}},
        {"--preset kimi-linear-48b", Names{"3*kda/mla/3*...2*kda/mla-absorbed"}},
        {"--preset gemma-3-27b", Names{"5*gqa@1024/gqa"}},
        {"--from run --context 99", Names{"mqa"}},
        {"--from run --head-dim 6 --rope-dim 6", Names{}},
        {"--preset llama-3-8b --layers 2", Names{}},
        {"--preset llama-3-8b --attention gqa2", Names{}}}) {
    Names found;
    for (const std::string& line : lines_of(output(flags))) {
      if (line.ends_with("as published") || line.ends_with("<- the run"))
        found.push_back(line.substr(0, line.find(' ')));
    }
    EXPECT_EQ(found, marked) << flags;
  }
}

TEST_F(CostCommand, GivesTheMeanOfLayersThatAreNotAlike) {
  const auto pattern = [&](const std::string& layers) {
    return table("--attention mqa/share/mqa --dim 16 --heads 2 --layers " + layers)["rows"].back();
  };
  // q and o of all layers, k and v of three; each is a number of 16 x 8 or 16 x 16.
  EXPECT_EQ(pattern("4").at("params_per_layer"), 16 * 16 * 2 + 3 * 2 * 16 * 8 / 4);
  EXPECT_EQ(pattern("4").at("cache_elements_per_token_per_layer"), 3 * 2 * 8 / 4);
  EXPECT_EQ(pattern("5").at("cache_elements_per_token_per_layer"), 3 * 2 * 8 / 5.0);
}

TEST_F(CostCommand, CountsTheAttentionThatIsAskedForWithThePresetsSizes) {
  const json asked = row(table("--preset kimi-linear-48b --attention delta/mla"), "delta/mla");
  EXPECT_GT(asked.at("params_per_layer"), 38e6);  // 36.8e6 with its own 3 kda to a mla
}

TEST_F(CostCommand, LeavesOutAnAttentionThatDoesNotFitAndSaysWhy) {
  const ProgramResult result = folder_.done("cost --dim 7 --heads 7 --head-dim 4 --format json");
  const Names left_out = lines_of(result.err);
  ASSERT_EQ(left_out.size(), 2u) << result.err;
  EXPECT_TRUE(left_out[0].starts_with("left out gqa: ")) << result.err;
  EXPECT_TRUE(left_out[1].starts_with("left out gta: ")) << result.err;
  for (const std::string& line : left_out) expect_parts(line, {"--kv-heads"});
  Names expected = names(table(""));
  std::erase(expected, "gqa");
  std::erase(expected, "gta");
  EXPECT_EQ(names(json::parse(result.out)), expected);
}

TEST_F(CostCommand, HelpNamesTheModels) {
  const std::string help = output("--help");
  for (const ReleasedModel& model : known_models()) expect_parts(help, {model.name});
}

TEST_F(CostCommand, TablesFitTheTerminalUnlessWideOnesAreWanted) {
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    for (const std::string& line : lines_of(text))
      if (!line.starts_with("note: ")) most = std::max(most, character_count(line));
    return most;
  };
  const std::string usual = output("--preset deepseek-v3"),
                    wide = output("--preset deepseek-v3 --wide");
  EXPECT_LE(widest(usual), 100u) << usual;
  expect_parts(usual, {"left out, see --wide: expansion MACs/token"});
  EXPECT_GT(widest(wide), 100u) << wide;
  EXPECT_EQ(wide.find("left out"), std::string::npos) << wide;
}

}  // namespace
}  // namespace headcount
