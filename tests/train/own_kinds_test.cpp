// programs: own_kinds
// A program with an attention, a corpus and an optimizer of one's own in it, each one file that
// registers it: everything that the command line does with the others, it does with those.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

class OwnProgram : public testing::Test {
 protected:
  ProgramResult own(const std::string& line) const {
    return run_program(words(line), folder_.path(), HEADCOUNT_OWN_PROGRAM);
  }
  nlohmann::json json_of(const std::string& line) const {
    const ProgramResult result = own(line + " --format json");
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    return nlohmann::json::parse(result.out);
  }
  static constexpr const char* kModel =
      " --layers 1 --dim 16 --heads 4 --context 16 --batch 2 --data text.txt";

  TrainFolder folder_;
};

// Without the places where help breaks lines.
TEST_F(OwnProgram, NamesTheirSettingsInHelp) {
  const std::string help = std::regex_replace(own("train --help all").out, std::regex("\\s+"), " ");
  expect_parts(help, {"kda, own", "fox, own: KV heads", "(heads with fox; 1 with own)",
                      "own: the learned temperatures at the start [1.0]",
                      "tales, lookup, mqar, recall, letters,",
                      "letters: different letters that a line shows", "lion: Lion for all weights",
                      "lion: decay rate of the mean of gradients"});
}

TEST_F(OwnProgram, TrainsResumesSamplesAndEvaluatesItsAttentionInEveryCacheType) {
  const std::string model = std::string(kModel) + " --attention own --kv-heads 2";
  const nlohmann::json trained = json_of("train --steps 4 --out run" + model);
  EXPECT_EQ(trained["attention"], "own");
  EXPECT_EQ(trained["kv_cache_bytes_per_token"], 2 * 2 * 4 * 4);  // two heads of k and v
  EXPECT_EQ(json_of("train --resume run --steps 6")["steps"], 6);
  const std::string sample = "sample --from run --tokens 12 --temperature 0";
  EXPECT_EQ(json_of(sample + " --cache off")["text"], json_of(sample)["text"]);
  const nlohmann::json exact = json_of("eval --from run");
  for (const std::string type : {"f32", "bf16", "f16", "int8"})
    EXPECT_NEAR(json_of("eval --from run --cache-dtype " + type)["loss"], exact["loss"], 0.01);
  const nlohmann::json cost = json_of("cost --dim 16 --heads 4 --context 8 --layers 1");
  EXPECT_NE(cost.dump().find("\"own\""), std::string::npos) << cost;
}

TEST_F(OwnProgram, TrainsOnItsCorpusWithItsDefaultsAndMarksItsAnswers) {
  const nlohmann::json trained = json_of("train --data letters --letters 3 --steps 4 --out run");
  const nlohmann::json config = folder_.json("run/config.json");
  EXPECT_EQ(config["letters"], 3) << config;
  EXPECT_EQ(config["context"], 16) << "the corpus's default";
  EXPECT_NEAR(trained["answer_baselines"]["commonest"].get<double>(), 1.0 / 3, 1e-9) << trained;
  expect_refusal(own("train --data letters --kinds 1 --steps 1 --out run"), kUsage,
                 {"--kinds has no effect with --data letters", "lookup"}, "kinds");
  expect_refusal(own("train --data letters --letters 9 --steps 1 --out run"), kUsage,
                 {"--letters", "8"}, "letters");
}

TEST_F(OwnProgram, ComparesItsAttentionOnItsCorpusByAnswers) {
  const nlohmann::json result = json_of(
      "compare --data letters --attention mha,own2 --seeds 5 --steps 3 --out study "
      "--metric answers");
  ASSERT_EQ(result["variants"].size(), 2u) << result;
  EXPECT_EQ(result["variants"][1]["spec"], "own2") << result["variants"][1];
}

TEST_F(OwnProgram, TrainsAndResumesByItsOptimizerWithTheSameBits) {
  // A constant learning rate, so that a run of 4 steps is the first half of one of 8.
  const std::string line =
      "train --optimizer lion --lr 1e-3 --min-lr 1e-3 --warmup 1" + std::string(kModel) + " --out ";
  const nlohmann::json whole = json_of(line + "whole --steps 8");
  json_of(line + "halves --steps 4");
  EXPECT_EQ(json_of("train --resume halves --steps 8")["val_loss"], whole["val_loss"]);
  EXPECT_NE(json_of(line + "other --steps 8 --momentum 0.5")["val_loss"], whole["val_loss"]);
}

}  // namespace
}  // namespace headcount
