// `headcount cost` as its users meet it: tables as JSON, CSV and text, sizes from flags, from a run
// and of well-known models, and what it says to sizes that do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "models/cost.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const Names kAttentions = {
    "mha",          "mqa",         "gqa", "mfa", "gta", "mla", "mla-absorbed", "mla-merged", "tpa",
    "tpa-factored", "latent-bias", "fox", "v4",  "hca", "csa", "delta",        "kda"};
const Names kRowKeys = {"attention",
                        "params_per_layer",
                        "linear_macs_per_token_per_layer",
                        "prefill_attention_macs_per_layer",
                        "decode_attention_macs_per_layer",
                        "cache_elements_per_token_per_layer",
                        "cache_elements_per_layer",
                        "cache_bytes",
                        "cache_bytes_at_4096",
                        "cache_bytes_at_131072",
                        "cache_bytes_at_1048576"};
// The sizes of the two reference tables.
const std::string kWidth256 =
    "--dim 256 --heads 8 --kv-heads 4 --bias --context 10 --kv-rank 64 --q-rank 64 --nope-dim 16 "
    "--v-dim 16 --rope-dim 26 --latent-norm off ";
const std::string kWidth8192 =
    "--dim 8192 --heads 64 --head-dim 128 --kv-heads 8 --kv-rank 512 --rope-dim 0 "
    "--context 131072 ";

Names split_text(const std::string& text, char separator) {
  Names parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

class CostCommand : public testing::Test {
 protected:
  ProgramResult cost(const std::string& flags) const { return folder_.headcount("cost " + flags); }
  // Standard output of a call that must succeed and warn of nothing.
  std::string output(const std::string& flags) const {
    const ProgramResult result = cost(flags);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  json table(const std::string& flags) const { return json::parse(output(flags + " --json")); }

  // The row of one attention; all of them must be there once, in order.
  static json row(const json& table, const std::string& attention) {
    Names names;
    for (const json& row : table.at("rows")) names.push_back(row.at("attention"));
    EXPECT_EQ(names, kAttentions);
    const auto at = std::ranges::find(names, attention) - names.begin();
    return table.at("rows").at(static_cast<std::size_t>(at));
  }

  // The row of one attention in a table that leaves out attentions that have no window.
  json row_with_window(const std::string& flags, const std::string& attention) const {
    const json table = json::parse(cost(flags + " --json").out);
    for (const json& row : table.at("rows")) {
      if (row.at("attention") == attention) return row;
    }
    return {};
  }

  // Exit code `code`, nothing on standard output and one line that has all of `names`.
  void expect_refusal(int code, const std::string& flags, const Names& names) const {
    headcount::expect_refusal(cost(flags), code, names, flags);
  }

  TrainFolder folder_;
};

TEST_F(CostCommand, WithJsonPrintsOneObjectWithTheDocumentedKeys) {
  for (const auto& [flags, context] : {std::pair{kWidth256, 10}, {kWidth8192, 131072}}) {
    const json object = table(flags);
    std::set<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"context", "dtype_bytes", "layers", "rows",
                                           "state_dtype_bytes"}));
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

TEST_F(CostCommand, PrintsTheArticlesTable) {
  const json object = table(kWidth256);
  for (const auto& [attention, parameters, macs] : {std::tuple{"mha", 263'168, 2'621'440},
                                                    {"mqa", 148'032, 1'474'560},
                                                    {"gqa", 197'376, 1'966'080},
                                                    {"mla", 111'082, 1'100'800}}) {
    const json found = row(object, attention);
    EXPECT_EQ(found.at("params_per_layer"), parameters) << attention;
    EXPECT_EQ(found.at("linear_macs_per_token_per_layer").get<int>() * 10, macs) << attention;
  }
}

TEST_F(CostCommand, PrintsTheBlogsTable) {
  constexpr std::int64_t kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;
  const json object = table(kWidth8192);
  for (const auto& [attention, parameters, cache, prefill, decode] :
       {std::tuple{"mha", 256 * kMega, 2 * kGiga, 256 * kTera, 2 * kGiga},
        {"mqa", 130 * kMega, 32 * kMega, 256 * kTera, 2 * kGiga},
        {"gqa", 144 * kMega, 256 * kMega, 256 * kTera, 2 * kGiga},
        {"mla-merged", 516 * kMega, 64 * kMega, 1024 * kTera, 8 * kGiga}}) {
    const json found = row(object, attention);
    EXPECT_EQ(found.at("params_per_layer"), parameters) << attention;
    EXPECT_EQ(found.at("cache_elements_per_layer"), cache) << attention;
    EXPECT_EQ(found.at("cache_elements_per_token_per_layer"), cache / 131'072) << attention;
    EXPECT_EQ(found.at("cache_bytes"), cache * 4 * 4) << attention;  // layers, bytes
    EXPECT_EQ(found.at("prefill_attention_macs_per_layer"), prefill) << attention;
    EXPECT_EQ(found.at("decode_attention_macs_per_layer"), decode) << attention;
  }
}

TEST_F(CostCommand, CountsLayersAndBytesOfTheCache) {
  const json object = table(kWidth256 + "--layers 7 --cache-dtype bf16");
  EXPECT_EQ(object.at("layers"), 7);
  EXPECT_EQ(object.at("dtype_bytes"), 2);
  EXPECT_EQ(row(object, "mha").at("cache_bytes"), 2 * 256 * 10 * 7 * 2);
  EXPECT_EQ(row(object, "mla").at("cache_bytes"), (64 + 26) * 10 * 7 * 2);
  const std::map<std::string, int> sizes = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"int8", 1}};
  for (const auto& [dtype, bytes] : sizes)
    EXPECT_EQ(table("--cache-dtype " + dtype).at("dtype_bytes"), bytes) << dtype;
}

// Delta keeps states alone, which no type of cache rounds.
TEST_F(CostCommand, SaysWhatOfACacheIsKeptInWhichType) {
  const json states = row(table(kWidth256 + "--layers 7"), "delta").at("cache_bytes");
  for (const auto& [dtype, said] :
       {std::pair{"f32", "4 bytes a number (f32), states 4 (f32)"},
        {"bf16", "2 bytes a number (bf16), states 4 (f32)"},
        {"f16", "2 bytes a number (f16), states 4 (f32)"},
        {"int8", "1 byte a number and 4 a row (int8), states 4 (f32)"}}) {
    const std::string flags = kWidth256 + "--layers 7 --cache-dtype " + dtype;
    EXPECT_NE(output(flags).find(std::string("cached rows of tokens take ") + said + ";"),
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
  EXPECT_EQ(hca.at("pooled_elements_per_token_per_layer"), 4);
  EXPECT_EQ(hca.at("window_elements_per_layer"), 4 * 32);
  EXPECT_EQ(hca.at("open_block_elements_per_layer"), 7 * 2 * 32);
  EXPECT_EQ(hca.at("cache_bytes"), 2 * (2 * (4 * 32 + 64 * 4) + 4 * 7 * 2 * 32));
  EXPECT_EQ(row_with_window(flags + "64", "hca").at("pooled_elements_per_token_per_layer"), 0.5);
  const std::string text = cost(flags + "8").out;
  for (const char* const part :
       {"note: hca: each layer of hca keeps 1/8 of a row of 32 numbers per token, in its window at "
        "most 128 numbers, and for an open block 448 numbers\n",
        "note: hca: a `window` of 4 is shorter than an open block of 8 tokens"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Beside that, csa keeps index rows of 16 numbers; an open block has 2 x 2 x 48 numbers of each of
// 7 tokens at most, and 2 x 48 of each of the 8 of the block before.
TEST_F(CostCommand, CountsTheIndexRowsOfCsaAndTheBlockBeforeAnOpenOne) {
  const std::string flags =
      "--attention csa --layers 2 --dim 64 --heads 4 --context 64 --window 4 --compress 8 "
      "--index-head-dim 16 --cache-dtype f16 ";
  const json csa = row_with_window(flags, "csa");
  EXPECT_EQ(csa.at("cache_elements_per_token_per_layer"), 32);
  EXPECT_EQ(csa.at("pooled_elements_per_token_per_layer"), 6);
  EXPECT_EQ(csa.at("window_elements_per_layer"), 4 * 32);
  EXPECT_EQ(csa.at("open_block_elements_per_layer"), 48 * (7 * 4 + 8 * 2));
  const std::string text = cost(flags + "--index-loss 0").out;
  for (const char* const part :
       {"note: csa: each layer of csa keeps 1/8 of a row of 48 numbers per token, in its window at "
        "most 128 numbers, and for an open block 2112 numbers\n",
        "note: csa: `index-loss` is 0: nothing trains the indexer of csa",
        "note: csa: a `window` of 4 is shorter than an open block of 8 tokens"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(CostCommand, WithCsvPrintsTheSameNumbers) {
  const json object = table(kWidth8192);
  const Names lines = split_text(output(kWidth8192 + "--csv"), '\n');
  ASSERT_EQ(lines.size(), 1 + kAttentions.size());
  const Names header = split_text(lines[0], ',');
  for (const std::string& key : kRowKeys) EXPECT_EQ(std::ranges::count(header, key), 1) << lines[0];
  for (std::size_t i = 0; i < kAttentions.size(); ++i) {
    const json& expected = object.at("rows").at(i);
    const Names cells = split_text(lines[i + 1], ',');
    ASSERT_EQ(cells.size(), header.size()) << lines[i + 1];
    EXPECT_EQ(header.size(), expected.size());
    EXPECT_EQ(cells[0], expected.at("attention"));
    for (std::size_t column = 1; column < header.size(); ++column)
      EXPECT_EQ(cells[column], expected.at(header[column]).dump()) << header[column];
  }
}

// Rows are the lines whose first word is an attention.
TEST_F(CostCommand, PrintsATableWithOneRowForEachAttention) {
  const std::string text = output(kWidth8192);
  Names rows;
  for (const std::string& line : split_text(text, '\n')) {
    const std::string first = line.substr(0, line.find(' '));
    if (std::ranges::count(kAttentions, first) > 0) rows.push_back(first);
  }
  EXPECT_EQ(rows, kAttentions);
  for (const char* const part : {"4 layers", "8192", "131072", "32 GiB", "as published"}) {
    const bool expected = std::string(part) != "as published";  // it is nobody's model
    EXPECT_EQ(text.find(part) != std::string::npos, expected) << part << "\n" << text;
  }
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

// As the run's own layers have it: q, k, v, z of 2 heads of 8, a gate and an output projection.
TEST_F(CostCommand, CountsTheGateOfARunOfDelta) {
  ASSERT_EQ(folder_.train("--steps 1 --quiet --out run --attention delta --gate on").exit_code, 0);
  EXPECT_EQ(row(table("--from run"), "delta").at("params_per_layer"),
            16 * 4 * 16 + 16 * 4 + 4 * 3 * 16 + 2 + 2 + 8 + 16 * 16 + 16 * 16);
}

TEST_F(CostCommand, TakesTheSizesOfAWellKnownModel) {
  const std::map<std::string, std::int64_t> bytes_per_token = {
      {"gpt-2", 36'864},           {"llama-2-7b", 512 * 1024}, {"llama-3-8b", 128 * 1024},
      {"llama-3-70b", 320 * 1024}, {"mistral-7b", 128 * 1024}, {"qwen3-8b", 144 * 1024},
      {"deepseek-v2", 69'120},     {"deepseek-v3", 70'272}};
  for (const KnownModel& model : known_models()) {
    if (!bytes_per_token.contains(model.name)) continue;  // its layers are not alike
    const std::string flags = "--preset " + model.name + " --cache-dtype bf16 --context 131072";
    const auto spec = model.settings.at("attention").get<std::string>();  // "gqa8"
    const json found =
        row(table(flags), std::string(parse_attention_spec(spec).cycle.front().kind->name));
    EXPECT_EQ(found.at("cache_bytes"), bytes_per_token.at(model.name) * 131'072) << model.name;
  }
  const json gqa = row(table("--kv-heads 4 --preset llama-3-8b"), "gqa");
  EXPECT_EQ(gqa.at("cache_elements_per_token_per_layer"), 2 * 4 * 128);
}

TEST_F(CostCommand, MarksTheAttentionThatAModelWasPublishedWith) {
  for (const auto& [flags, marked] :
       {std::pair{"--preset llama-3-8b", Names{"gqa"}},
        {"--preset gpt-2", Names{"mha"}},
        {"--preset deepseek-v3", Names{"mla-absorbed"}},
        {"--preset step-3", Names{"mfa"}},
        {"--preset kimi-linear-48b", Names{"3*kda/mla/3*...mla-absorbed"}},
        {"--preset gemma-3-27b", Names{"5*gqa@1024/gqa"}}}) {
    Names found;
    for (const std::string& line : split_text(output(flags), '\n')) {
      if (line.ends_with("as published")) found.push_back(line.substr(0, line.find(' ')));
    }
    EXPECT_EQ(found, marked) << flags;
  }
}

TEST_F(CostCommand, MarksTheAttentionOfARunAndNoneWhereFlagsChangeItsSizes) {
  ASSERT_EQ(folder_.train("--steps 1 --quiet --out run --attention mqa").exit_code, 0);
  EXPECT_NE(output("--from run --context 99").find("<- the run\n"), std::string::npos);
  for (const char* const flags :
       {"--from run --head-dim 6 --rope-dim 6", "--preset llama-3-8b --layers 2"})
    EXPECT_EQ(output(flags).find("<-"), std::string::npos) << flags;
}

// Five local layers of 1024 tokens to one global layer, k and v of 16 heads of 128 in 2 bytes.
TEST_F(CostCommand, PrintsTheCacheOfAPatternAtEachContext) {
  const json object = table("--preset gemma-3-27b --context 8192 --cache-dtype bf16");
  const json pattern = object.at("rows").back();
  EXPECT_EQ(pattern.at("attention"), "5*gqa@1024/gqa");
  const auto bytes = [](std::int64_t context) {
    return 2 * 16 * 128 * 2 * (52 * 1024 + 10 * context);
  };
  EXPECT_EQ(pattern.at("cache_bytes"), bytes(8192));
  for (const int context : {4096, 131'072, 1'048'576})
    EXPECT_EQ(pattern.at("cache_bytes_at_" + std::to_string(context)), bytes(context));
  const std::string text = output("--preset gemma-3-27b --context 8192 --cache-dtype bf16");
  for (const char* const part : {"4 k tokens", "128 k tokens", "1 M tokens", "80.41 GiB"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
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

TEST_F(CostCommand, RefusesAPatternThatDoesNotFit) {
  expect_refusal(2, "--attention mqa/gqa3 --heads 4", {"--attention mqa/gqa3: 'gqa3'"});
  expect_refusal(2, "--attention mqa/nosuch", {"'nosuch' in 'mqa/nosuch' is no attention"});
}

TEST_F(CostCommand, LeavesOutAnAttentionThatDoesNotFitAndSaysWhy) {
  const ProgramResult result = cost("--dim 7 --heads 7 --head-dim 4 --json");
  EXPECT_EQ(result.exit_code, 0);
  const Names left_out = split_text(result.err, '\n');
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

TEST_F(CostCommand, RefusesSizesThatDoNotFit) {
  expect_refusal(2, "--dim 256 --heads 3", {"--heads 3", "--dim 256"});
  expect_refusal(2, "--dim 256 --heads 8 --context 0", {"--context", "0"});
  expect_refusal(2, "--dim 256 --heads -8", {"--heads"});
}

TEST_F(CostCommand, RefusesSizesThatOverflow) {
  for (const char* const flags :
       {"--dim 1048576 --heads 2147483646 --head-dim 2147483646",
        "--dim 2 --heads 1048576 --head-dim 1024 --context 16777216",
        "--dim 2 --heads 2 --kv-rank 2147483646 --v-dim 2147483646",
        "--dim 2 --heads 1048576 --head-dim 2 --context 16777216 --layers 10000 --csv"}) {
    expect_refusal(2, flags, {"overflow", "--context"});
  }
  expect_refusal(2, "--heads 99999999999999999999", {"--heads"});
}

TEST_F(CostCommand, RefusesAnUnknownModelAndListsTheKnownOnes) {
  Names names = {"--preset", "gpt-9"};
  for (const KnownModel& model : known_models()) names.push_back(model.name);
  expect_refusal(2, "--preset gpt-9", names);
}

TEST_F(CostCommand, RefusesARunThatIsNotThere) {
  expect_refusal(3, "--from nowhere", {"--from", "nowhere"});
  expect_refusal(3, "--from text.txt", {"--from", "text.txt"});
}

TEST_F(CostCommand, RefusesARunWithUnusableConfiguration) {
  std::filesystem::create_directory(folder_ / "bad");
  for (const char* const bytes :
       {"", "{\"dim\": 16", "{\"dim\": 0}", "{\"dim\": [16]}", "[1, 2]"}) {
    folder_.file("bad/config.json", bytes);
    expect_refusal(3, "--from bad", {"bad/config.json"});
  }
}

TEST_F(CostCommand, RefusesUnknownFlagsAndDtypes) {
  expect_refusal(2, "--colour red", {"colour"});
  expect_refusal(2, "--cache-dtype f8", {"--cache-dtype", "bf16"});
}

TEST_F(CostCommand, HelpNamesTheModelsAndTheirSources) {
  const std::string help = output("--help");
  for (const KnownModel& model : known_models()) {
    EXPECT_NE(help.find(model.name + ": " + model.source), std::string::npos) << model.name;
  }
}

}  // namespace
}  // namespace headcount
