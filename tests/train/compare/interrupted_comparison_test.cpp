// label: slow
// A comparison that was stopped anywhere ends with the bits of one that ran through.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/checkpoint.h"
#include "train/compare/comparison_folder.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kStoppedOnce =
    ComparisonFolder::line("--dropout 0.1 --steps 40 --attention mha,mla --quiet");
const std::string kRun = "c/runs/mha/seed-1";

class InterruptedComparison : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    whole_ = std::make_unique<TrainFolder>();
    whole_->done(kStoppedOnce);
  }
  static void TearDownTestSuite() { whole_.reset(); }

  // Stops a comparison in step `step` of all that it trains.
  void stop(const std::string& flags, int signal = SIGTERM, int step = 20) const {
    EXPECT_EQ(folder_.signalled(kStoppedOnce + flags, step, signal), 128 + signal);
  }
  // Equal to the last bit, but for the clock.
  void expect_whole() const {
    for (const std::string run : {"mha/seed-1", "mha/seed-2", "mla/seed-1", "mla/seed-2"}) {
      const std::string place = "c/runs/" + run + "/";
      for (const std::string file : {"checkpoints/step-40/model.safetensors", "metrics.jsonl"}) {
        ASSERT_TRUE(folder_.has(place + file)) << place << file;
        EXPECT_EQ(folder_.contents(place + file), whole_->contents(place + file)) << place << file;
      }
      json there = whole_->json(place + "run.json"), here = folder_.json(place + "run.json");
      EXPECT_EQ(here["status"], "finished") << place;
      EXPECT_GT(here["result"]["machine_seconds"], 0);
      for (json* record : {&there, &here}) {
        for (const char* name : {"machine_seconds", "train_tokens_per_second", "machine"})
          (*record)["result"].erase(name);
        for (const char* name : {"starts", "working_directory"}) record->erase(name);
        (*record)["settings"].erase("checkpoint-every");
      }
      EXPECT_EQ(here, there) << place;
    }
  }
  // Steps at which the starts of a run began.
  std::vector<int> starts() const {
    const json record = folder_.json(kRun + "/run.json");
    std::vector<int> steps;
    for (const json& start : record["starts"]) steps.push_back(start["from_step"]);
    return steps;
  }

  static inline std::unique_ptr<TrainFolder> whole_;
  TrainFolder folder_;
};

TEST_F(InterruptedComparison, SavesItsRunsOnASignalAndGoesOnToTheSameBits) {
  stop(" --jobs 1");
  EXPECT_EQ(folder_.contents("out"), "");
  EXPECT_EQ(folder_.contents("err"),
            "headcount: stopped; its runs are saved; continue with headcount " + kStoppedOnce +
                " --jobs 1\n");
  const auto saved = find_checkpoint(folder_ / kRun);
  ASSERT_TRUE(saved);
  EXPECT_EQ(*step_of(*saved), 20);
  folder_.expect_refusal("train --resume " + kRun, kUsage,
                         {"a comparison has begun this run", kRun + "/run.json has that command"});
  const json record = folder_.json(kRun + "/run.json");
  EXPECT_EQ(record["status"], "unfinished");

  stop(" --jobs 2 --checkpoint-every 10", SIGINT, 70);  // which changes no result
  folder_.done(kStoppedOnce + " --jobs 3");
  expect_whole();
  auto there = without_timing(whole_->contents("c/results.json")),
       here = without_timing(folder_.contents("c/results.json"));
  for (auto* results : {&there, &here}) results->erase("command");
  EXPECT_EQ(here, there);
  // All starts are counted, and recorded.
  EXPECT_GT(folder_.json(kRun + "/run.json")["result"]["machine_seconds"],
            record["machine_seconds"]);
  ASSERT_GE(starts().size(), 2u);
  EXPECT_EQ(starts()[0], 0);
  EXPECT_EQ(starts()[1], 20);
}

TEST_F(InterruptedComparison, BeginsAnewWhereTheUnfinishedRunIsAnotherOne) {
  stop(" --jobs 1 --lr 0.1");
  ASSERT_TRUE(find_checkpoint(folder_ / kRun));
  stop(" --jobs 1");
  EXPECT_EQ(starts().size(), 1u) << "another learning rate";
  // The record of an unfinished run by another version of the program, and one without a number.
  const std::string file = kRun + "/run.json";
  for (const json& patch :
       {json{{"version", "headcount 0.0.1"}}, json{{"machine_seconds", nullptr}}}) {
    json record = folder_.json(file);
    record.merge_patch(patch);
    folder_.file(file, record.dump());
    stop(" --jobs 1");
    EXPECT_EQ(starts().size(), 1u) << patch;
  }
  // A checkpoint that is damaged.
  folder_.file(
      find_checkpoint(folder_ / kRun)->lexically_relative(folder_.path()) / "optimizer.safetensors",
      "");
  folder_.done(kStoppedOnce);
  EXPECT_EQ(starts().size(), 1u) << "damaged";
  expect_whole();
}

TEST_F(InterruptedComparison, LosesNoOlderCheckpointWhereTheNewestIsDamaged) {
  stop(" --jobs 1");
  const fs::path newest = *find_checkpoint(folder_ / kRun), older = newest.parent_path() / "step-1";
  fs::copy(newest, older);
  fs::resize_file(newest / "optimizer.safetensors", 9);
  expect_parts(folder_.headcount(kStoppedOnce).out,
               {"step-1 is whole: to continue from it, remove"});
  for (const fs::path& checkpoint : {older, newest})
    EXPECT_TRUE(fs::exists(checkpoint / "model.safetensors")) << checkpoint;
}

TEST_F(InterruptedComparison, ByForceIsNamedWithoutItToGoOn) {
  folder_.done(kStoppedOnce);
  stop(" --jobs 1 --force");
  expect_parts(folder_.contents("err"),
               {"continue with headcount " + kStoppedOnce + " --jobs 1\n"});
  EXPECT_FALSE(folder_.json("c/runs/mla/seed-2/run.json").contains("result"))
      << "what goes on would take it for a result of its own";
}

}  // namespace
}  // namespace headcount
