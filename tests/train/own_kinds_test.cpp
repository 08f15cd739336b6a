// programs: own_kinds
// A program with an attention, a corpus and an optimizer of one's own in it, each one file that
// registers it: everything that the command line does with the others, it does with those.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

class OwnProgram : public testing::Test {
 protected:
  nlohmann::json object(const std::string& line) const { return folder_.object(line); }
  nlohmann::json trained(const std::string& flags) const {
    return object(TrainFolder::train_line(flags));
  }

  TrainFolder folder_{HEADCOUNT_OWN_PROGRAM};
};

TEST_F(OwnProgram, NamesTheirSettingsInHelp) {
  expect_parts(folder_.done("train --help all").out,
               {"own; a size may follow", "own: the learned temperatures at the start [1.0]",
                "letters: different letters that a line shows", "lion: Lion for all weights"});
}

TEST_F(OwnProgram, TrainsResumesSamplesAndEvaluatesItsAttentionInEveryCacheType) {
  const nlohmann::json result = trained("--heads 4 --attention own --kv-heads 2 --out run");
  EXPECT_EQ(result["attention"], "own2");
  EXPECT_EQ(result["kv_cache_bytes_per_token"], 2 * 2 * 4 * 4);  // two heads of k and v
  EXPECT_EQ(object("train --resume run --steps 6")["steps"], 6);
  const std::string sample = "sample --from run --tokens 12 --temperature 0";
  EXPECT_EQ(object(sample + " --cache off")["text"], object(sample)["text"]);
  const nlohmann::json exact = object("eval --from run");
  for (const std::string type : {"f32", "bf16", "f16", "int8"})
    EXPECT_NEAR(object("eval --from run --cache-dtype " + type)["loss"], exact["loss"], 0.01);
  expect_parts(object("cost --dim 16 --heads 4 --context 8 --layers 1").dump(), {"\"own\""});
}

TEST_F(OwnProgram, TrainsOnItsCorpusWithItsDefaultsAndMarksItsAnswers) {
  const nlohmann::json result = object("train --data letters --letters 3 --steps 4 --out run"),
                       config = folder_.settings("run");
  EXPECT_EQ(config["letters"], 3) << config;
  EXPECT_EQ(config["context"], 16) << "the corpus's default";
  EXPECT_NEAR(result["answer_baselines"]["commonest"].get<double>(), 1.0 / 3, 1e-9) << result;
  folder_.expect_refusal("train --data letters --directions 1 --steps 1 --out run", kUsage,
                         {"--directions has no effect with --data letters", "lookup"});
  folder_.expect_refusal("train --data letters --letters 9 --steps 1 --out run", kUsage,
                         {"--letters", "8"});
}

TEST_F(OwnProgram, ComparesItsAttentionOnItsCorpusByAnswers) {
  const nlohmann::json result = object(
      "compare --data letters --attention mha,own2 --seeds 5 --steps 3 --out study "
      "--metric answers");
  ASSERT_EQ(result["variants"].size(), 2u) << result;
  EXPECT_EQ(result["variants"][1]["spec"], "own2") << result["variants"][1];
}

TEST_F(OwnProgram, TrainsAndResumesByItsOptimizerWithTheSameBits) {
  // A constant learning rate, so that a run of 4 steps is the first half of one of 8.
  const std::string lion = "--optimizer lion --lr 1e-3 --min-lr 1e-3 --warmup 1 ";
  const nlohmann::json whole = trained(lion + "--steps 8 --out whole");
  trained(lion + "--steps 4 --out halves");
  EXPECT_EQ(object("train --resume halves --steps 8")["val_loss"], whole["val_loss"]);
  EXPECT_NE(trained(lion + "--steps 8 --momentum 0.5 --out other")["val_loss"], whole["val_loss"]);
}

}  // namespace
}  // namespace headcount
