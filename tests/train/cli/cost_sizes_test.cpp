// Sizes that `headcount cost` takes from a run and of well-known models, and what it says to sizes
// that do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "models/cost.h"
#include "models/released_models.h"
#include "train/cli/cost_command.h"

namespace headcount::cost_tables {
namespace {

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
  ASSERT_EQ(folder_.train("--steps 1 --quiet " + sizes + " --head-dim 2 --out narrow").exit_code,
            0);
  const std::string pattern = "--layers 2 --attention mha/mfa --head-dim 2 --out turns";
  ASSERT_EQ(folder_.train("--steps 1 --quiet --dim 16 --heads 4 " + pattern).exit_code, 0);
  for (const char* other : {"mha", "mqa", "mfa", "mla"}) {
    const json wanted = row(table(sizes + " --head-dim 2"), other);
    EXPECT_EQ(row(table("--from narrow"), other), wanted);
    const json rows = table("--from turns").at("rows");
    const auto found =
        std::ranges::find_if(rows, [&](const json& row) { return row.at("attention") == other; });
    ASSERT_NE(found, rows.end());
    EXPECT_EQ(found->at("params_per_layer"), wanted.at("params_per_layer")) << other;
  }
}

// Weights of the run's layers: q, k, v, z of 2 heads of 8, a gate and an output projection.
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
  for (const ReleasedModel& model : known_models()) {
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
       {"--from run --head-dim 6 --rope-dim 6", "--preset llama-3-8b --layers 2",
        "--preset llama-3-8b --attention gqa2"})
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

TEST_F(CostCommand, RefusesAnAttentionThatIsAskedForAndDoesNotFit) {
  expect_refusal(2, "--attention gqa8", {"--kv-heads 8 does not divide --heads 4"});
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
        "--attention mla --dim 2 --heads 2 --kv-rank 2147483646 --v-dim 2147483646",
        "--dim 2 --heads 1048576 --head-dim 2 --context 16777216 --layers 10000 --csv"}) {
    expect_refusal(2, flags, {"overflow", "--context"});
  }
  expect_refusal(2, "--heads 99999999999999999999", {"--heads"});
}

TEST_F(CostCommand, RefusesAnUnknownModelAndListsTheKnownOnes) {
  Names names = {"--preset", "gpt-9"};
  for (const ReleasedModel& model : known_models()) names.push_back(model.name);
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
  for (const ReleasedModel& model : known_models()) {
    EXPECT_NE(help.find(model.name + ": " + model.source), std::string::npos) << model.name;
  }
}

}  // namespace
}  // namespace headcount::cost_tables
