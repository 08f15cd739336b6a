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
  json object(const std::string& line) const {
    return json::parse(output(line + " --format json"));
  }
  json train(const std::string& flags) const {
    return object(TrainFolder::train_line(flags + " --quiet"));
  }

  TrainFolder folder_;
};

TEST_F(Pattern, GoesOnToTheSameBits) {
  const std::string model = "--attention mqa@4/share/mla --layers 3 --steps 6 --seed 3 ";
  train(model + "--out whole");
  train(model + "--out part --checkpoint-every 3 --keep 2");
  std::filesystem::remove_all(folder_ / "part/checkpoints/step-6");
  output("train --resume part --quiet --attention mqa@4/share/mla --threads 2");
  EXPECT_EQ(folder_.weights("part", 6), folder_.weights("whole", 6));
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

}  // namespace
}  // namespace headcount
