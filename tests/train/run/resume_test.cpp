// A run that was stopped anywhere ends with the bits of one that ran through; where a run ends; and
// a run that goes on longer than it was begun for. folder_test.cpp kills a process while it saves.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/products.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string run_line(const std::string& flags) {
  return "train --quiet " +
         over_defaults(
             "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --dropout 0.1 "
             "--attention mla --eval-every 10",
             flags);
}

class ResumedRun : public testing::Test {
 protected:
  // Equal to the last bit: weights, moments, metrics.
  void expect_equal_runs(const std::string& a, const std::string& b, int steps) const {
    const std::string step = "/checkpoints/step-" + std::to_string(steps);
    for (const std::string& file : {step + "/model.safetensors", step + "/optimizer.safetensors",
                                    step + "/trainer_state.json", std::string("/metrics.jsonl")}) {
      ASSERT_FALSE(folder_.contents(a + file).empty()) << file;
      EXPECT_EQ(folder_.contents(a + file), folder_.contents(b + file)) << file;
    }
  }
  std::set<std::string> checkpoints(const std::string& run) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / (run + "/checkpoints")))
      names.insert(entry.path().filename());
    return names;
  }
  Index saved_step(const std::string& run) const {
    const auto newest = find_checkpoint(folder_ / run);
    return newest ? *step_of(*newest) : 0;
  }
  // Expects that the run `whole`, which ends at step `last` and was evaluated and saved every fifth
  // step, ends there with the same bits if it was stopped after `step`; `key` is then its `value`.
  void expect_same_end(int step, int last, const char* key, int value) const {
    fs::remove_all(folder_ / "cut");
    folder_.copy("whole", "cut");
    for (int later = step + 5; later <= last; later += 5)
      fs::remove_all(folder_ / ("cut/checkpoints/step-" + std::to_string(later)));
    EXPECT_EQ(folder_.object("train --quiet --resume cut")[key], value) << step;
    expect_equal_runs("cut", "whole", last);
  }

  TrainFolder folder_;
};

// Runs that get `signal` in step `stop`, after which the newest checkpoint is that of step `saved`.
TEST_F(ResumedRun, EndsWithTheBitsOfOneThatRanThrough) {
  struct Stopped {
    const char* flags;
    int steps, stop, signal, saved;
  };
  std::vector<Stopped> runs = {{"--checkpoint-every 0", 40, 17, SIGINT, 17},
                               {"--checkpoint-every 0", 40, 17, SIGTERM, 17},
                               {"--checkpoint-every 0", 20, 7, SIGHUP, 7},
                               {"--checkpoint-every 5", 20, 13, SIGKILL, 10},
                               {"--checkpoint-every 0 --eval-every 0", 12, 7, SIGKILL, 0},
                               {"--checkpoint-every 20 --optimizer muon", 40, 23, SIGTERM, 23},
                               {"--attention mqa@4/share/mla --layers 3", 12, 5, SIGTERM, 5}};
  if (bf16_lacks().empty())
    runs.push_back({"--precision bf16 --dim 32 --batch 4", 8, 5, SIGTERM, 5});
  for (const auto& [flags, steps, stop, signal, saved] : runs) {
    SCOPED_TRACE(flags);
    for (const char* run : {"whole", "stopped"}) fs::remove_all(folder_ / run);
    const std::string line = run_line(flags) + " --steps " + std::to_string(steps) + " --out ";
    folder_.done(line + "whole --threads 1");
    EXPECT_EQ(folder_.signalled(line + "stopped --threads 2", stop, signal), 128 + signal);
    EXPECT_EQ(saved_step("stopped"), saved);
    if (signal != SIGKILL)
      expect_parts(folder_.contents("err"),
                   {"stopped after step " + std::to_string(stop) + "; a checkpoint is saved; " +
                    "resume with headcount train --resume stopped"});
    folder_.done("train --quiet --resume stopped --threads 3");
    expect_equal_runs("stopped", "whole", steps);
  }
}

// Two signals at once, as `timeout` sends them: to the process and to its group. A thread that
// waits for work may be the one that handles them, while the first computes the step to its end.
TEST_F(ResumedRun, SavesWhatItHasWhenASignalComesTwiceAtOnce) {
  const pid_t child = folder_.halted(run_line("--steps 40 --checkpoint-every 0 --out twice"), 9);
  for (const int signal : {SIGINT, SIGTERM, SIGCONT}) kill(child, signal);
  const int code = exit_code_of(child);
  EXPECT_TRUE(code == 130 || code == 143) << code;  // of the signal that is handled first
  EXPECT_GE(saved_step("twice"), 9);
}

TEST_F(ResumedRun, IgnoresThatItsTerminalGoesUnderNohup) {
  const std::string told = "HEADCOUNT_STOP_AT=" + TrainFolder::stop_at(7, SIGHUP);
  const ProgramResult nohup = folder_.shell("trap '' HUP; " + told + " exec \"$headcount\" " +
                                            run_line("--steps 20 --out nohup"));
  EXPECT_EQ(nohup.exit_code, 0) << nohup.err;
  EXPECT_TRUE(checkpoints("nohup").contains("step-20"));
  EXPECT_FALSE(checkpoints("nohup").contains("step-7"));
}

TEST_F(ResumedRun, StopsWithinAnEvaluationAndBeginsWithItAgain) {
  const std::string run = run_line("--steps 10 --out ");  // the last step is evaluated
  folder_.done(run + "whole");
  EXPECT_EQ(folder_.signalled(run + "stopped", 10, SIGTERM), 143);
  expect_parts(folder_.contents("err"),
               {"stopped in the evaluation after step 10; a checkpoint is saved; resume with "
                "headcount train --resume stopped"});
  EXPECT_EQ(saved_step("stopped"), 10);
  // Stopped within the evaluation once more, it has the same checkpoint and the same lines.
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(std::ranges::count(folder_.contents("stopped/metrics.jsonl"), '\n'), 10);
    EXPECT_EQ(folder_.contents("stopped/metrics.jsonl").find("val_loss"), std::string::npos);
    EXPECT_EQ(folder_.signalled("train --quiet --resume stopped", 1, SIGTERM), 143);
  }
  expect_parts(folder_.done("train --resume stopped").err, {"step 10/10  loss "});
  expect_equal_runs("stopped", "whole", 10);
  EXPECT_EQ(checkpoints("stopped"), checkpoints("whole"));
  EXPECT_EQ(folder_.done("eval --best --from stopped").out,
            folder_.done("eval --best --from whole").out);
}

TEST_F(ResumedRun, ThatHasFinishedIsOnlyEvaluatedAndRecordsEveryStart) {
  const std::string line = run_line("--steps 12 --out run");
  folder_.done(line);
  const std::string before = folder_.weights("run", 12),
                    metrics = folder_.contents("run/metrics.jsonl");
  const json again = folder_.object("train --quiet --resume run");
  EXPECT_EQ(again["steps"], 12);
  EXPECT_EQ(folder_.weights("run", 12), before);
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics);
  EXPECT_EQ(again["val_loss"], folder_.metrics("run").back()["val_loss"]);
  const json record = folder_.json("run/run.json"), starts = record["starts"];
  EXPECT_EQ(record["data_sha256"].get<std::string>().size(), 64u);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0]["command"], "headcount " + line);
  EXPECT_EQ(starts[1]["from_step"], 12);
  EXPECT_EQ(starts[1]["command"], "headcount train --quiet --resume run --format json");
  // The version that --version prints ends with that of MPI, on which no result depends.
  const std::string version = folder_.done("--version").out;
  EXPECT_TRUE(version.starts_with(starts[1]["version"].get<std::string>() + ", ")) << version;
}

TEST_F(ResumedRun, KeepsTheNewestCheckpointsAndTheBest) {
  // Evaluations between two checkpoints save one as well if they are the best.
  const std::string flags = "--steps 60 --checkpoint-every 20 --lr 3e-2 --keep 2 --out run";
  folder_.done(run_line(flags));
  double least = 1e9;
  int best_step = 0;
  std::vector<int> saved;
  for (const json& entry : folder_.metrics("run")) {
    const int step = entry["step"];
    const bool best = entry.contains("val_loss") && entry["val_loss"] < least;
    if (best) least = entry["val_loss"];
    if (best) best_step = step;
    if (best || step % 20 == 0) saved.push_back(step);
  }
  EXPECT_EQ(folder_.object("eval --best --from run")["loss"], least);
  // The best is not counted among the two.
  std::set<std::string> expected = {"latest", "step-" + std::to_string(best_step)};
  for (auto step = saved.rbegin(); step != saved.rend() && expected.size() < 4; ++step)
    expected.insert("step-" + std::to_string(*step));
  EXPECT_EQ(checkpoints("run"), expected);
}

// A run that ends before its steps: after its last evaluation it has ended, however often it is
// resumed, and stopped before that it ends with the same bits at the same step.
TEST_F(ResumedRun, EndsWhereItHasLearned) {
  const json result = folder_.object(TrainFolder::train_line(
      "--steps 400 --eval-every 5 --checkpoint-every 5 --lr 2e-3 --warmup 0 --stop-at-loss 2.5 "
      "--keep 100 --quiet --out whole"));
  const int last = result["learned_at"];
  EXPECT_EQ(result["steps"], last);
  EXPECT_TRUE(last > 10 && last < 400) << last;
  EXPECT_LT(result["val_loss"], 2.5);
  const std::string metrics = folder_.contents("whole/metrics.jsonl");
  EXPECT_TRUE(metrics.ends_with(",\"stopped\":true}\n")) << metrics;
  for (const int step : {5, last - 5}) expect_same_end(step, last, "learned_at", last);
  expect_parts(folder_.done("train --quiet --resume whole").out,
               {"learned at step " + std::to_string(last) + " of 400"});
  EXPECT_EQ(folder_.contents("whole/metrics.jsonl"), metrics);
}

TEST_F(ResumedRun, EndsWhereEvaluationsStopImproving) {
  const json result = folder_.object(TrainFolder::train_line(
      "--steps 400 --eval-every 5 --checkpoint-every 5 --lr 0.5 --warmup 0 --dropout 0.1 "
      "--stop-after 3 --keep 100 --quiet --out whole"));
  const int best = result["best_step"], last = best + 15;
  EXPECT_EQ(result["stopped"], true);
  EXPECT_EQ(result["steps"], last);
  EXPECT_TRUE(best > 5 && last < 400) << last;
  const std::string metrics = folder_.contents("whole/metrics.jsonl");
  EXPECT_TRUE(metrics.ends_with(",\"stopped\":true}\n")) << metrics;
  EXPECT_EQ(metrics.find("stopped"), metrics.rfind("stopped"));
  EXPECT_EQ(folder_.object("eval --from whole --best")["loss"], result["best_val_loss"]);
  EXPECT_EQ(folder_.object("eval --from whole")["loss"], result["val_loss"]);
  EXPECT_EQ(folder_.done("sample --best --from whole").out,
            folder_.done("sample --from whole/checkpoints/step-" + std::to_string(best)).out);
  for (const int step : {5, best, last - 5}) expect_same_end(step, last, "best_step", best);
  folder_.expect_refusal("train --resume whole --steps 500", kUsage,
                         {"--stop-after has ended the run in whole"});
  expect_parts(folder_.done("train --quiet --resume whole").out,
               {"stopped at step " + std::to_string(last) + " of 400: no new lowest"});
  EXPECT_EQ(folder_.contents("whole/metrics.jsonl"), metrics);
  folder_.done("report --from whole --out report");
  const json curves = folder_.json("report/curves.json");
  EXPECT_TRUE(curves["runs"][0]["curve"].back().contains("stopped"));
}

TEST_F(ResumedRun, ThatIsMadeLongerHasTheLearningRatesOfItsNewLengthAndSaysSo) {
  folder_.done(run_line("--warmup 5 --steps 12 --out run"));
  folder_.done(run_line("--warmup 5 --steps 30 --out long"));
  folder_.copy("run", "stopped");
  const auto before = folder_.metrics("run"), whole = folder_.metrics("long");
  EXPECT_EQ(
      folder_.done("train --quiet --resume run --steps 30").err,
      "headcount: the run continues from step 12 to 30 instead of 12, with the learning rates of "
      "a run of 30 steps: its weights will differ from those of a run that had 30 steps from "
      "the start\n");
  const auto after = folder_.metrics("run");
  ASSERT_EQ(after.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(after[i]["step"], i + 1);
    EXPECT_EQ(i < 12 ? after[i] : after[i]["lr"], i < 12 ? before[i] : whole[i]["lr"]);
  }
  EXPECT_NE(after.back()["val_loss"], whole.back()["val_loss"]);
  EXPECT_EQ(folder_.json("run/config.json")["steps"], 30);
  const json starts = folder_.json("run/run.json")["starts"];
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0]["steps"], 12);
  EXPECT_EQ(starts[1]["from_step"], 12);
  EXPECT_EQ(starts[1]["steps"], 30);
  // Stopped again, it goes on to the same bits; it is of that length now.
  EXPECT_EQ(folder_.signalled("train --quiet --resume stopped --steps 30", 9, SIGTERM), 143);
  EXPECT_EQ(saved_step("stopped"), 12 + 9);
  EXPECT_EQ(folder_.done("train --quiet --resume stopped --threads 3").err, "");
  expect_equal_runs("stopped", "run", 30);
}

TEST_F(ResumedRun, OfAConstantRateThatIsMadeLongerIsTheLongRun) {
  folder_.done(run_line("--warmup 5 --decay constant --steps 12 --out run"));
  folder_.done(run_line("--warmup 5 --decay constant --steps 30 --out long"));
  EXPECT_EQ(folder_.done("train --quiet --resume run --steps 30").err, "");
  EXPECT_EQ(folder_.weights("run", 30), folder_.weights("long", 30));
}

TEST_F(ResumedRun, IsNotOneOfAComparison) {
  folder_.done(
      "compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3 "
      "--attention mha --seeds 2 --quiet --out c");
  const std::string run = "c/runs/mha/seed-1", config = folder_.contents(run + "/config.json");
  const std::string instead = "train --init " + run + " --data text.txt --steps 6";
  folder_.expect_refusal("train --resume " + run + " --steps 6", kUsage,
                         {"belongs to a comparison", "headcount " + instead});
  EXPECT_EQ(folder_.contents(run + "/config.json"), config);
  folder_.done(instead + " --quiet --out new");
}

}  // namespace
}  // namespace headcount
