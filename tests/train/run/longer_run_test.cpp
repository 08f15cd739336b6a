// label: unsanitized
// A run that is to go on longer than it was begun for.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class LongerRun : public testing::Test {
 protected:
  static std::string begun(int steps, const std::string& out) {
    return TrainFolder::train_line("--dropout 0.1 --warmup 5 --eval-every 10 --quiet --steps " +
                                   std::to_string(steps) + " --out " + out);
  }
  void copy(const std::string& from, const std::string& to) const {
    fs::copy(folder_ / from, folder_ / to, fs::copy_options::recursive);
  }

  TrainFolder folder_;
};

TEST_F(LongerRun, HasTheLearningRatesOfItsNewLengthFromThereOnAndSaysSo) {
  ASSERT_EQ(folder_.headcount(begun(12, "run")).exit_code, 0);
  ASSERT_EQ(folder_.headcount(begun(30, "long")).exit_code, 0);
  const auto before = folder_.metrics("run"), whole = folder_.metrics("long");
  const ProgramResult longer = folder_.headcount("train --quiet --resume run --steps 30");
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(
      longer.err,
      "headcount: the run continues from step 12 to 30 instead of 12, with the learning rates of "
      "a run of 30 steps: its weights will differ from those of a run that had 30 steps from "
      "the start\n");
  const auto after = folder_.metrics("run");
  ASSERT_EQ(after.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(after[i]["step"], i + 1);
    if (i < 12) {
      EXPECT_EQ(after[i], before[i]);
    } else {
      EXPECT_EQ(after[i]["lr"], whole[i]["lr"]);
    }
  }
  EXPECT_NE(after.back()["val_loss"], whole.back()["val_loss"]);
  EXPECT_EQ(json::parse(folder_.contents("run/config.json"))["steps"], 30);
  const json starts = json::parse(folder_.contents("run/run.json"))["starts"];
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0]["steps"], 12);
  EXPECT_EQ(starts[1]["from_step"], 12);
  EXPECT_EQ(starts[1]["steps"], 30);
}

TEST_F(LongerRun, OfAConstantRateIsThatWhichHadItsLengthFromTheStart) {
  ASSERT_EQ(folder_.headcount(begun(12, "run --decay constant")).exit_code, 0);
  ASSERT_EQ(folder_.headcount(begun(30, "long --decay constant")).exit_code, 0);
  const ProgramResult longer = folder_.headcount("train --quiet --resume run --steps 30");
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(longer.err, "");
  EXPECT_EQ(folder_.weights("run", 30), folder_.weights("long", 30));
}

TEST_F(LongerRun, GoesOnToTheSameBitsWhereItIsStoppedAgain) {
  ASSERT_EQ(folder_.headcount(begun(12, "whole")).exit_code, 0);
  copy("whole", "stopped");
  ASSERT_EQ(folder_.headcount("train --quiet --resume whole --steps 60").exit_code, 0);
  EXPECT_EQ(folder_.signalled("train --quiet --resume stopped --steps 60", 9, SIGTERM), 143);
  EXPECT_EQ(*step_of(*find_checkpoint(folder_ / "stopped")), 12 + 9);
  const ProgramResult last = folder_.headcount("train --quiet --resume stopped --threads 3");
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(last.err, "");  // it is of that length now
  for (const std::string file : {"checkpoints/step-60/model.safetensors",
                                 "checkpoints/step-60/optimizer.safetensors", "metrics.jsonl"})
    EXPECT_EQ(folder_.contents("stopped/" + file), folder_.contents("whole/" + file)) << file;
}

TEST_F(LongerRun, IsNoShorterAndNotOneOfAComparison) {
  ASSERT_EQ(folder_.headcount(begun(12, "run")).exit_code, 0);
  expect_refusal(folder_.headcount("train --resume run --steps 11"), kUsage,
                 {"--steps is 11, but the run in run has 12"}, "shorter");
  ASSERT_EQ(folder_
                .headcount("compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 "
                           "--batch 2 --steps 3 --attention mha --seeds 2 --quiet --out c")
                .exit_code,
            0);
  const std::string run = "c/runs/mha/seed-1", config = folder_.contents(run + "/config.json");
  expect_refusal(
      folder_.headcount("train --resume " + run + " --steps 6"), kUsage,
      {"belongs to a comparison", "headcount train --init " + run + " --data text.txt --steps 6"},
      "of c");
  EXPECT_EQ(folder_.contents(run + "/config.json"), config);
  const ProgramResult instead =
      folder_.headcount("train --quiet --data text.txt --init " + run + " --steps 6 --out new");
  EXPECT_EQ(instead.exit_code, 0) << instead.err;
}

}  // namespace
}  // namespace headcount
