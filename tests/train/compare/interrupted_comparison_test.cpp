// label: slow
// A comparison that was stopped anywhere ends with the bits of one that ran through.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/checkpoint.h"
#include "train/compare/without_timing.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kStoppedOnce =
    "compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --dropout 0.1 "
    "--steps 40 --seeds 2 --threads 2 --attention mha,mla --quiet ";

class InterruptedComparison : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    whole_ = std::make_unique<TrainFolder>();
    const ProgramResult result = whole_->headcount(kStoppedOnce + "--out c");
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  static void TearDownTestSuite() { whole_.reset(); }

  // Exit code of a comparison that gets the signal in step `step` of all that it trains.
  int stopped(const std::string& flags, int signal, int step = 20) const {
    return folder_.signalled(kStoppedOnce + flags, step, signal);
  }
  json of(const TrainFolder& folder, const std::string& file) const {
    return json::parse(folder.contents(file));
  }
  // Equal to the last bit, but for the clock.
  void expect_whole() const {
    for (const std::string run : {"mha/seed-1", "mha/seed-2", "mla/seed-1", "mla/seed-2"}) {
      const std::string place = "c/runs/" + run + "/";
      for (const std::string file : {"checkpoints/step-40/model.safetensors", "metrics.jsonl"}) {
        ASSERT_TRUE(folder_.has(place + file)) << place << file;
        EXPECT_EQ(folder_.contents(place + file), whole_->contents(place + file)) << place << file;
      }
      EXPECT_FALSE(folder_.has(place + "unfinished.json")) << place;
      json there = of(*whole_, place + "result.json"), here = of(folder_, place + "result.json");
      EXPECT_GT(here["machine_seconds"], 0);
      for (json* result : {&there, &here}) {
        for (const char* name : {"machine_seconds", "train_tokens_per_second", "sha256", "sharing"})
          result->erase(name);
        (*result)["settings"].erase("checkpoint-every");
      }
      EXPECT_EQ(here, there) << place;
    }
  }
  void expect_same_results() const {
    auto there = without_timing(whole_->contents("c/results.json")),
         here = without_timing(folder_.contents("c/results.json"));
    for (auto* results : {&there, &here}) {
      results->erase("command");
      (*results)["config"].erase("checkpoint-every");
    }
    EXPECT_EQ(here, there);
  }

  static std::unique_ptr<TrainFolder> whole_;
  TrainFolder folder_;
};

std::unique_ptr<TrainFolder> InterruptedComparison::whole_;

TEST_F(InterruptedComparison, SavesItsRunsOnASignalAndGoesOnToTheSameBits) {
  const std::string run = "c/runs/mha/seed-1";
  EXPECT_EQ(stopped("--jobs 1 --out c", SIGTERM), 143);
  EXPECT_EQ(folder_.contents("out"), "");
  EXPECT_EQ(folder_.contents("err"),
            "headcount: stopped; its runs are saved; continue with headcount " + kStoppedOnce +
                "--jobs 1 --out c\n");
  const auto saved = find_checkpoint(folder_ / run);
  ASSERT_TRUE(saved);
  EXPECT_EQ(*step_of(*saved), 20);
  expect_refusal(folder_.headcount("train --resume " + run), kUsage,
                 {"a comparison has begun this run", run + "/run.json has that command"}, run);
  const json spent = of(folder_, run + "/unfinished.json")["spent"];

  EXPECT_EQ(stopped("--jobs 2 --out c", SIGINT, 70), 130);
  const ProgramResult last = folder_.headcount(kStoppedOnce + "--jobs 3 --out c");
  ASSERT_EQ(last.exit_code, 0) << last.err;
  expect_whole();
  expect_same_results();
  // All starts are counted, and recorded.
  EXPECT_GT(of(folder_, run + "/result.json")["machine_seconds"], spent["machine_seconds"]);
  const json starts = of(folder_, run + "/run.json")["starts"];
  ASSERT_GE(starts.size(), 2u);
  EXPECT_EQ(starts[0]["from_step"], 0);
  EXPECT_EQ(starts[1]["from_step"], 20);
}

TEST_F(InterruptedComparison, GoesOnAfterAKillFromTheCheckpointsThatItWasToldToSave) {
  // Of 35 steps of two runs side by side, one has 18 at least, and neither has ended.
  EXPECT_EQ(stopped("--jobs 2 --checkpoint-every 10 --out c", SIGKILL, 35), 128 + SIGKILL);
  // How often checkpoints are saved changes no result.
  ASSERT_EQ(folder_.headcount(kStoppedOnce + "--out c").exit_code, 0);
  expect_whole();
  int from_step = 0;
  for (const std::string run : {"mha", "mla"}) {
    const json starts = of(folder_, "c/runs/" + run + "/seed-1/run.json")["starts"];
    from_step += starts.back()["from_step"].get<int>();
  }
  EXPECT_GE(from_step, 10);
}

TEST_F(InterruptedComparison, BeginsAnewWhereTheUnfinishedRunIsAnotherOne) {
  const std::string run = "c/runs/mha/seed-1";
  ASSERT_EQ(stopped("--jobs 1 --out c --lr 0.1", SIGTERM), 143);
  ASSERT_TRUE(find_checkpoint(folder_ / run));
  ASSERT_EQ(stopped("--jobs 1 --out c", SIGTERM), 143);
  EXPECT_EQ(of(folder_, run + "/run.json")["starts"].size(), 1u) << "another learning rate";
  // The record of an unfinished run by another version of the program.
  json record = of(folder_, run + "/unfinished.json");
  record["version"] = "headcount 0.0.1";
  folder_.file(run + "/unfinished.json", record.dump());
  ASSERT_EQ(stopped("--jobs 1 --out c", SIGTERM), 143);
  EXPECT_EQ(of(folder_, run + "/run.json")["starts"].size(), 1u) << "another version";
  // A record that lacks a number.
  record = of(folder_, run + "/unfinished.json");
  record["spent"].erase("machine_seconds");
  folder_.file(run + "/unfinished.json", record.dump());
  ASSERT_EQ(stopped("--jobs 1 --out c", SIGTERM), 143);
  EXPECT_EQ(of(folder_, run + "/run.json")["starts"].size(), 1u) << "a damaged record";
  // A checkpoint that is damaged.
  folder_.file(
      find_checkpoint(folder_ / run)->lexically_relative(folder_.path()) / "optimizer.safetensors",
      "");
  ASSERT_EQ(folder_.headcount(kStoppedOnce + "--out c").exit_code, 0);
  EXPECT_EQ(of(folder_, run + "/run.json")["starts"].size(), 1u) << "damaged";
  expect_whole();
}

TEST_F(InterruptedComparison, LosesNoOlderCheckpointWhereTheNewestIsDamaged) {
  const std::string run = "c/runs/mha/seed-1";
  ASSERT_EQ(stopped("--jobs 1 --out c", SIGTERM), 143);
  const fs::path newest = *find_checkpoint(folder_ / run), older = newest.parent_path() / "step-1";
  fs::copy(newest, older);
  fs::resize_file(newest / "optimizer.safetensors", 9);
  const ProgramResult result = folder_.headcount(kStoppedOnce + "--out c");
  EXPECT_NE(result.out.find("step-1 is whole: to continue from it, remove"), std::string::npos)
      << result.out << result.err;
  EXPECT_TRUE(fs::exists(older / "model.safetensors"));
  EXPECT_TRUE(fs::exists(newest / "model.safetensors"));
}

TEST_F(InterruptedComparison, ByForceIsNamedWithoutItToGoOn) {
  const std::string old = "c/runs/mla/seed-2/result.json";
  std::filesystem::create_directories((folder_ / old).parent_path());
  folder_.file(old, "{}");
  EXPECT_EQ(stopped("--jobs 1 --force --out c", SIGTERM), 143);
  EXPECT_NE(folder_.contents("err").find("continue with headcount " + kStoppedOnce +
                                         "--jobs 1 --out c\n"),
            std::string::npos)
      << folder_.contents("err");
  EXPECT_FALSE(folder_.has(old)) << "what goes on would take it for a result of its own";
}

}  // namespace
}  // namespace headcount
