// A run that was stopped anywhere ends with the bits of one that ran through; where a run ends; and
// a run that goes on longer than it was begun for. folder_test.cpp kills a process while it saves.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>

#include "autograd/products/products.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string run_line(const std::string& flags) {
  return TrainFolder::train_line(
             over_defaults("--dropout 0.1 --attention mla --eval-every 10", flags)) +
         " --quiet";
}

class ResumedRun : public testing::Test {
 protected:
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

  TrainFolder folder_;
};

// Runs that get `signal` in step `stop`, after which the newest checkpoint is that of step `saved`.
TEST_F(ResumedRun, EndsWithTheBitsOfOneThatRanThrough) {
  struct Stopped {
    const char* flags;
    int steps, stop, signal, saved;
  };
  std::vector<Stopped> runs = {{"--checkpoint-every 0", 40, 17, SIGINT, 17},
                               {"--checkpoint-every 0", 40, 20, SIGTERM, 20},  // evaluated
                               {"--checkpoint-every 0", 20, 7, SIGHUP, 7},
                               {"--checkpoint-every 0", 20, 7, SIGUSR1, 7},
                               {"--checkpoint-every 5", 20, 13, SIGKILL, 10},
                               {"--checkpoint-every 0 --eval-every 0", 12, 7, SIGKILL, 0},
                               {"--checkpoint-every 20 --optimizer muon", 40, 23, SIGTERM, 23},
                               {"--documents lines", 12, 5, SIGTERM, 5},
                               {"--attention mqa@4/share/mla --layers 3", 12, 5, SIGTERM, 5}};
  if (bf16_lacks().empty())
    runs.push_back({"--precision bf16 --dim 32 --batch 4", 8, 5, SIGTERM, 5});
  for (const auto& [flags, steps, stop, signal, saved] : runs) {
    SCOPED_TRACE(flags);
    for (const char* run : {"whole", "stopped"}) fs::remove_all(folder_ / run);
    const std::string line = flags + (" --steps " + std::to_string(steps)) + " --out ";
    folder_.done(run_line(line + "whole"));
    EXPECT_EQ(folder_.signalled(run_line(line + "stopped --threads 2"), stop, signal),
              128 + signal);
    EXPECT_EQ(saved_step("stopped"), saved);
    if (signal != SIGKILL)
      expect_parts(folder_.contents("err"),
                   {"stopped after step " + std::to_string(stop) + "; a checkpoint is saved; " +
                    "resume with headcount train --resume stopped"});
    folder_.done("train --quiet --resume stopped --threads 3");
    folder_.expect_same_run("stopped", "whole", steps);
  }
}

TEST_F(ResumedRun, IgnoresThatItsTerminalGoesUnderNohup) {
  const std::string told = "HEADCOUNT_STOP_AT=" + TrainFolder::stop_at(7, SIGHUP);
  const ProgramResult nohup = folder_.shell("trap '' HUP; " + told + " exec headcount " +
                                            run_line("--steps 20 --out nohup"));
  EXPECT_EQ(nohup.exit_code, 0) << nohup.err;
  EXPECT_TRUE(checkpoints("nohup").contains("step-20"));
  EXPECT_FALSE(checkpoints("nohup").contains("step-7"));
}

TEST_F(ResumedRun, ThatHasFinishedIsOnlyEvaluatedAndRecordsEveryStart) {
  const std::string line = run_line("--steps 12 --out run");
  folder_.done(line);
  const std::string before = folder_.weights("run", 12),
                    metrics = folder_.contents("run/metrics.jsonl");
  const json again = folder_.object("train --quiet --resume run");
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
  folder_.done(run_line("--steps 60 --checkpoint-every 20 --lr 3e-2 --keep 2 --out run"));
  json least = 1e9;
  std::string best;
  std::vector<std::string> saved;
  for (const json& entry : folder_.metrics("run")) {
    const bool improves = entry.value("val_loss", least) < least;
    if (improves || entry["step"].get<int>() % 20 == 0)
      saved.push_back("step-" + entry["step"].dump());
    if (!improves) continue;
    least = entry["val_loss"];
    best = saved.back();
  }
  EXPECT_EQ(folder_.object("eval --best --from run")["loss"], least);
  std::erase(saved, best);  // it is not counted among the two
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"latest", best, *saved.rbegin(), *(saved.rbegin() + 1)}));
}

// A run that ends before its steps: after its last evaluation it has ended, however often it is
// resumed, and stopped before that it ends with the same bits at the same step.
TEST_F(ResumedRun, EndsWhereItHasLearnedOrEvaluationsStopImproving) {
  struct Ending {
    std::string run, flags;
    const char* key;  // of the step that ends the run
    int later;        // steps to the end
    std::string said;
  };
  const Ending endings[] = {
      {"learned", "--lr 2e-3 --stop-at-loss 2.5 ", "learned_at", 0, "where the run ends"},
      {"stopped", "--lr 0.5 --dropout 0.1 --stop-after 3 ", "best_step", 15, "no new lowest"}};
  for (const auto& [run, flags, key, later, said] : endings) {
    const json result =
        folder_.object(TrainFolder::train_line(flags +
                                               "--steps 400 --eval-every 5 --checkpoint-every 5 "
                                               "--warmup 0 --keep 100 --quiet --out " +
                                               run));
    const int value = result[key], last = value + later;
    EXPECT_EQ(result["steps"], last);
    EXPECT_TRUE(value > 5 && last < 400) << last;
    EXPECT_EQ(folder_.object("eval --from " + run)["loss"], result["val_loss"]);
    const std::string metrics = folder_.contents(run + "/metrics.jsonl");
    EXPECT_TRUE(metrics.ends_with(",\"stopped\":true}\n")) << metrics;
    EXPECT_EQ(metrics.find("stopped"), metrics.rfind("stopped"));
    for (const int stop : {5, value, last - 5}) {
      fs::remove_all(folder_ / "cut");
      folder_.copy(run, "cut");
      for (int step = stop + 5; step <= last; step += 5)
        fs::remove_all(folder_ / ("cut/checkpoints/step-" + std::to_string(step)));
      EXPECT_EQ(folder_.object("train --quiet --resume cut")[key], value) << stop;
      folder_.expect_same_run("cut", run, last);
    }
    expect_parts(folder_.done("train --quiet --resume " + run).out,
                 {" at step " + std::to_string(last) + " of 400", said});
    EXPECT_EQ(folder_.contents(run + "/metrics.jsonl"), metrics);
    if (later == 0) {
      EXPECT_LT(result["val_loss"], 2.5);
      continue;
    }
    EXPECT_EQ(result["stopped"], true);
    EXPECT_EQ(folder_.object("eval --best --from " + run)["loss"], result["best_val_loss"]);
    folder_.expect_refusal("train --steps 500 --resume " + run, kUsage,
                           {"--stop-after has ended the run in " + run});
    EXPECT_TRUE(folder_.object("report " + run)["runs"][0]["curve"].back().contains("stopped"));
  }
}

TEST_F(ResumedRun, ThatIsMadeLongerHasTheLearningRatesOfItsNewLengthAndSaysSo) {
  for (const std::string run : {"run --steps 12", "long --steps 30"})
    folder_.done(run_line("--warmup 5 --out " + run));
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
  const json starts = folder_.json("run/run.json")["starts"];
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(folder_.settings("run")["steps"], 30);
  // Stopped again, it goes on to the same bits; it is of that length now.
  EXPECT_EQ(folder_.signalled("train --quiet --resume stopped --steps 30", 9, SIGTERM), 143);
  EXPECT_EQ(saved_step("stopped"), 12 + 9);
  EXPECT_EQ(folder_.done("train --quiet --resume stopped --threads 3").err, "");
  folder_.expect_same_run("stopped", "run", 30);
}

TEST_F(ResumedRun, OfAConstantRateThatIsMadeLongerIsTheLongRun) {
  for (const std::string run : {"run --steps 12", "long --steps 30"})
    folder_.done(run_line("--warmup 5 --decay constant --out " + run));
  EXPECT_EQ(folder_.done("train --quiet --resume run --steps 30").err, "");
  EXPECT_EQ(folder_.weights("run", 30), folder_.weights("long", 30));
}

// The SHA-256 of a text, not its path, says that it is the run's.
TEST_F(ResumedRun, TakesItsTextFromANewPath) {
  const std::string text = folder_.contents("text.txt");
  for (const std::string run : {"run", "whole"}) folder_.done(run_line("--steps 12 --out " + run));
  fs::create_directory(folder_ / "moved");
  fs::rename(folder_ / "text.txt", folder_ / "moved/text.txt");
  const std::string resume = "train --quiet --resume run --steps 14";
  folder_.expect_refusal(resume, kData, {"is not here", "or give its new path by --data"});
  folder_.file("other.txt", text + "Q\u00fc\n");  // with characters that the run does not know
  folder_.expect_refusal(resume + " --data gone.txt", kData,
                         {"--data 'gone.txt' is not there; check the path"});
  folder_.expect_refusal(resume + " --data other.txt", kData,
                         {"other.txt is not the text of the run in run"});
  folder_.expect_refusal(resume + " --data tales", kUsage, {"--data is \"tales\", but the run in"});
  folder_.done(resume + " --data moved/text.txt");
  folder_.done("train --quiet --resume whole --steps 14 --data " +
               fs::canonical(folder_ / "moved/text.txt").string());
  folder_.expect_same_run("run", "whole", 14);
  folder_.done("eval --from run");  // it is found there from now on
}

TEST_F(ResumedRun, IsNotOneOfAComparison) {
  folder_.done(TrainFolder::compare_line("--out c"));
  const std::string run = "c/runs/mha/seed-1", record = folder_.contents(run + "/run.json"),
                    instead = "train --init " + run + " --data text.txt --steps 6";
  folder_.expect_refusal("train --resume " + run + " --steps 6", kUsage,
                         {"belongs to a comparison", "headcount " + instead});
  EXPECT_EQ(folder_.contents(run + "/run.json"), record);
  folder_.done(instead + " --quiet --out new");
}

}  // namespace
}  // namespace headcount
