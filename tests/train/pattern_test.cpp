// A model whose layers take turns, as its users meet it: trained, resumed, read back, compared.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

class Pattern : public testing::Test {
 protected:
  // What a command that must succeed prints.
  std::string output(const std::string& line) const {
    const ProgramResult result = folder_.headcount(line);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    return result.out;
  }
  json object(const std::string& line) const { return json::parse(output(line + " --json")); }
  json train(const std::string& flags) const {
    return object(TrainFolder::train_line(flags + " --quiet"));
  }
  std::string weights(const std::string& run, int step) const {
    return folder_.contents(run + "/checkpoints/step-" + std::to_string(step) +
                            "/model.safetensors");
  }

  TrainFolder folder_;
};

// 2 heads of 8, a context of 16, in float32.
TEST_F(Pattern, IsTrainedWithTheCacheOfItsContext) {
  const json shared = train("--attention mqa/share --layers 4 --out shared");
  EXPECT_EQ(shared.at("attention"), "mqa/share");
  EXPECT_EQ(shared.at("kv_cache_bytes_per_token"), 2 * 2 * 8 * 4);
  const json local = train("--attention 2*mqa@4/mha --layers 3 --out local");
  EXPECT_EQ(local.at("kv_cache_bytes_per_token"), (2 * 4 * 2 * 8 + 16 * 2 * 16) * 4 / 16);
}

TEST_F(Pattern, GoesOnToTheSameBits) {
  const std::string model = "--attention mqa@4/share/mla --layers 3 --steps 6 --seed 3 ";
  train(model + "--out whole");
  train(model + "--out part --checkpoint-every 3 --keep 2");
  std::filesystem::remove_all(folder_ / "part/checkpoints/step-6");
  output("train --resume part --quiet --attention mqa@4/share/mla --threads 2");
  EXPECT_EQ(weights("part", 6), weights("whole", 6));
  expect_refusal(folder_.headcount("train --resume part --attention mqa@4/share/mqa"), 2,
                 {"--attention is \"mqa@4/share/mqa\"", "mqa@4/share/mla"}, "another pattern");
}

TEST_F(Pattern, StartsFromItsCheckpoint) {
  train("--attention gqa2@4/share --layers 2 --out first");
  const json again = train(
      "--init first/checkpoints/step-3 --steps 1 --lr 0 --warmup 0 --min-lr 0 --out second "
      "--attention gqa2@4/share --layers 2");
  EXPECT_EQ(again.at("attention"), "gqa2@4/share");
  expect_refusal(
      folder_.train("--init first/checkpoints/step-3 --attention gqa2@4/mqa --layers 2 --out x"), 2,
      {"--attention is \"gqa2@4/mqa\" here and \"gqa2@4/share\" there"}, "another pattern");
  train("--attention gqa1 --out plain");
  EXPECT_EQ(train("--init plain/checkpoints/step-3 --attention gqa1 --out more").at("attention"),
            "gqa");
}

TEST_F(Pattern, WritesTheSameTextWithCacheAndWithout) {
  for (const std::string attention : {"mqa/share", "mqa@3/mha", "mla/share/gqa1@5"}) {
    train("--layers 3 --force --out run --attention " + attention);
    const std::string flags = "sample --from run --tokens 40 --temperature 0 --prompt 16 --cache ";
    EXPECT_EQ(output(flags + "on"), output(flags + "off")) << attention;
    EXPECT_EQ(output("sample --from run --tokens 40 --temperature 0 --prompt 16 --repeat 2")
                  .find("--- 1"),
              0u);
    const json exact = object("eval --from run");
    for (const char* type : {"bf16", "f16", "int8"}) {
      EXPECT_NEAR(object(std::string("eval --from run --cache-dtype ") + type).at("loss"),
                  exact.at("loss"), 0.01)
          << attention;
    }
  }
  EXPECT_EQ(object("eval --from run").at("window"), json::array({0, 0, 5}));
  EXPECT_EQ(object("eval --from run --window 2").at("window"), json::array({2, 2, 2}));
}

TEST_F(Pattern, TakesTheFormOfTheLayersThatHaveIt) {
  train("--layers 2 --out run --attention mla/mqa");
  const std::string flags = "sample --from run --tokens 40 --temperature 0 --prompt 16 --mla ";
  EXPECT_EQ(output(flags + "absorbed"), output(flags + "expanded"));
  train("--layers 2 --out none --attention mha/mqa");
  expect_refusal(folder_.headcount("sample --from none --mla absorbed"), 2,
                 {"--mla does not apply to none, whose attention is mha/mqa"}, "mla");
}

TEST_F(Pattern, IsComparedAndReported) {
  const std::string line =
      "compare --attention mqa,mqa/share,mqa@4/mqa --seeds 2 --steps 3 --layers 2 --dim 16 "
      "--heads 2 --context 16 --batch 2 --data text.txt --threads 1 --quiet --out study";
  const json result = object(line);
  ASSERT_EQ(result.at("variants").size(), 3u);
  const json shared = result.at("variants")[1], local = result.at("variants")[2];
  EXPECT_EQ(shared.at("spec"), "mqa/share");
  EXPECT_EQ(shared.at("kv_cache_bytes_per_token"), 2 * 8 * 4);
  EXPECT_EQ(local.at("kv_cache_bytes_per_token"), (4 + 16) * 2 * 8 * 4 / 16);
  EXPECT_TRUE(folder_.has("study/runs/mqa_share/seed-1/result.json"));
  const std::string page = folder_.contents("study/report.html");
  EXPECT_NE(page.find("mqa/share"), std::string::npos);
  EXPECT_NE(page.find("KV B/token at 16"), std::string::npos);
  EXPECT_EQ(object(line).at("variants")[1].at("val_losses"), shared.at("val_losses"));
}

TEST_F(Pattern, MayNotContradictOtherFlags) {
  expect_refusal(folder_.train("--attention gqa1 --kv-heads 2 --out x"), 2,
                 {"--kv-heads 2 changes nothing"}, "gqa1");
  expect_refusal(folder_.train("--kv-heads 2 --attention gqa1 --out x"), 2,
                 {"--kv-heads 2 changes nothing"}, "gqa1, the other way round");
  expect_refusal(folder_.train("--attention mqa@4/mha@5 --layers 2 --window 3 --out x"), 2,
                 {"--window has no effect with --attention mqa@4/mha@5"}, "windows");
  expect_refusal(folder_.train("--attention mqa/mha --layers 2 --kv-rank 3 --out x"), 2,
                 {"--kv-rank has no effect with --attention mqa/mha", "mla"}, "kv-rank");
  expect_refusal(folder_.train("--attention mqa/share/mha --layers 2 --out x"), 2,
                 {"--attention mqa/share/mha needs 3 layers or more, --layers is 2"}, "layers");
  EXPECT_FALSE(folder_.has("x"));
}

TEST_F(Pattern, NamesItsRunFolder) {
  EXPECT_EQ(train("--attention 2*mqa@4/mha --layers 3").at("run"), "runs/text-2xmqa@4_mha");
}

}  // namespace
}  // namespace headcount
