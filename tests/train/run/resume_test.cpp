// A run that was stopped anywhere ends with the bits of one that ran through.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kRun =
    "train --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --dropout 0.1 "
    "--attention mla --eval-every 10 --quiet ";

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
  // Expects that the run `whole`, which ends at step `last` and was evaluated and saved every fifth
  // step, ends there with the same bits if it was stopped after `step`; `key` is then its `value`.
  void expect_same_end(int step, int last, const char* key, int value) const {
    fs::remove_all(folder_ / "cut");
    fs::copy(folder_ / "whole", folder_ / "cut", fs::copy_options::recursive);
    for (int later = step + 5; later <= last; later += 5)
      fs::remove_all(folder_ / ("cut/checkpoints/step-" + std::to_string(later)));
    const ProgramResult resumed = folder_.headcount("train --quiet --format json --resume cut");
    EXPECT_EQ(json::parse(resumed.out)[key], value) << step;
    expect_equal_runs("cut", "whole", last);
  }
  void expect_refusal(const std::string& line, int code, const std::string& part) const {
    headcount::expect_refusal(folder_.headcount(line), code, {part}, line);
  }

  TrainFolder folder_;
};

// Half of the kills come in the third step of a process, the others at any moment: no result
// depends on how far a process comes until then.
TEST_F(ResumedRun, SurvivesTwentyKillsAtRandomMoments) {
  constexpr int kSteps = 40, kKills = 20;
  const std::string flags = "--steps 40 --checkpoint-every 1 ";
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_of_whole = Clock::now();
  ASSERT_EQ(folder_.headcount(kRun + flags + "--out whole --threads 1").exit_code, 0);
  std::mt19937 generator(7);
  // Times of kills: up to the time that a whole run takes here, however slow machine or build are.
  std::uniform_int_distribution<Clock::rep> ticks(0, (Clock::now() - start_of_whole).count());
  for (int kills = 0; kills < kKills; ++kills) {
    // Where the folder says what the run is, no other flag is needed.
    const bool begun = folder_.has("killed/config.json");
    const std::string line =
        (begun ? "train --quiet --resume killed" : kRun + flags + "--out killed --force") +
        " --threads " + std::to_string(1 + kills % 3);
    int code = 0;
    if (kills % 2 == 0) {
      code = folder_.signalled(line, 3, SIGKILL);
    } else {
      const pid_t child = folder_.start(line);
      std::this_thread::sleep_for(Clock::duration(ticks(generator)));
      kill(child, SIGKILL);
      code = exit_code_of(child);
    }
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << code << folder_.contents("err");
    if (code != 0) continue;
    expect_equal_runs("killed", "whole", kSteps);  // it was quick; begin again
    fs::remove_all(folder_ / "killed");
  }
  if (!folder_.has("killed/config.json")) return;
  ASSERT_EQ(folder_.headcount("train --quiet --resume killed").exit_code, 0);
  expect_equal_runs("killed", "whole", kSteps);
}

TEST_F(ResumedRun, StopsAfterTheStepAndSavesItOnASignal) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 40 --checkpoint-every 0 --out whole").exit_code, 0);
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    fs::remove_all(folder_ / "stopped");
    EXPECT_EQ(folder_.signalled(kRun + "--steps 40 --checkpoint-every 0 --out stopped", 17, signal),
              code);
    const std::string message = folder_.contents("err");
    EXPECT_NE(message.find("stopped after step 17; a checkpoint is saved; "
                           "resume with headcount train --resume stopped"),
              std::string::npos)
        << message;
    const auto newest = find_checkpoint(folder_ / "stopped");
    ASSERT_TRUE(newest);
    EXPECT_EQ(*step_of(*newest), 17);
    ASSERT_EQ(folder_.headcount("train --quiet --resume stopped --threads 3").exit_code, 0);
    EXPECT_EQ(folder_.weights("stopped", 40), folder_.weights("whole", 40));
    EXPECT_EQ(folder_.contents("stopped/metrics.jsonl"), folder_.contents("whole/metrics.jsonl"));
  }
}

// Two signals at once, as `timeout` sends them: to the process and to its group. A thread that
// waits for work may be the one that handles them, while the first computes the step to its end.
TEST_F(ResumedRun, SavesWhatItHasWhenASignalComesTwiceAtOnce) {
  const pid_t child = folder_.halted(kRun + "--steps 40 --checkpoint-every 0 --out twice", 9);
  for (const int signal : {SIGINT, SIGTERM, SIGCONT}) kill(child, signal);
  const int code = exit_code_of(child);
  EXPECT_TRUE(code == 130 || code == 143) << code;  // of the signal that is handled first
  EXPECT_GE(*step_of(*find_checkpoint(folder_ / "twice")), 9);
}

TEST_F(ResumedRun, SavesWhatItHasWhenItsTerminalGoesButNotUnderNohup) {
  const std::string run = kRun + "--steps 20 --out ";
  EXPECT_EQ(folder_.signalled(run + "plain", 7, SIGHUP), 129);
  EXPECT_EQ(*step_of(*find_checkpoint(folder_ / "plain")), 7);
  const std::string told = "HEADCOUNT_STOP_AT=" + TrainFolder::stop_at(7, SIGHUP);
  const ProgramResult nohup =
      folder_.shell("trap '' HUP; " + told + " exec \"$headcount\" " + run + "nohup");
  EXPECT_EQ(nohup.exit_code, 0) << nohup.err;
  EXPECT_TRUE(checkpoints("nohup").contains("step-20"));
  EXPECT_FALSE(checkpoints("nohup").contains("step-7"));
}

TEST_F(ResumedRun, StopsWithinAnEvaluationAndBeginsWithItAgain) {
  const std::string run = kRun + "--steps 10 --out ";  // the last step is evaluated
  ASSERT_EQ(folder_.headcount(run + "whole").exit_code, 0);
  EXPECT_EQ(folder_.signalled(run + "stopped", 10, SIGTERM), 143);
  const std::string message = folder_.contents("err");
  EXPECT_NE(message.find("stopped in the evaluation after step 10; a checkpoint is saved; "
                         "resume with headcount train --resume stopped"),
            std::string::npos)
      << message;
  EXPECT_EQ(*step_of(*find_checkpoint(folder_ / "stopped")), 10);
  // Stopped within the evaluation once more, it has the same checkpoint and the same lines.
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(std::ranges::count(folder_.contents("stopped/metrics.jsonl"), '\n'), 10);
    EXPECT_EQ(folder_.contents("stopped/metrics.jsonl").find("val_loss"), std::string::npos);
    EXPECT_EQ(folder_.signalled("train --quiet --resume stopped", 1, SIGTERM), 143);
  }
  const ProgramResult resumed = folder_.headcount("train --resume stopped --format json");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("step 10/10  loss "), std::string::npos) << resumed.err;
  expect_equal_runs("stopped", "whole", 10);
  EXPECT_EQ(checkpoints("stopped"), checkpoints("whole"));
  const auto best = [&](const char* run) {
    return folder_.headcount("eval --best --from " + std::string(run)).out;
  };
  EXPECT_EQ(best("stopped"), best("whole"));
}

TEST_F(ResumedRun, OfMuonEndsWithTheBitsOfOneThatRanThrough) {
  const std::string run = kRun + "--optimizer muon --steps 40 --checkpoint-every 20 ";
  ASSERT_EQ(folder_.headcount(run + "--out whole").exit_code, 0);
  ASSERT_EQ(folder_.signalled(run + "--out stopped", 23, SIGTERM), 128 + SIGTERM);
  ASSERT_EQ(folder_.headcount("train --resume stopped --quiet").exit_code, 0);
  expect_equal_runs("stopped", "whole", 40);
}

TEST_F(ResumedRun, WithoutACheckpointBeginsAtTheBeginning) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out whole").exit_code, 0);
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out run").exit_code, 0);
  fs::remove_all(folder_ / "run/checkpoints/step-12");
  ASSERT_EQ(folder_.headcount("train --quiet --resume run").exit_code, 0);
  expect_equal_runs("run", "whole", 12);
}

TEST_F(ResumedRun, ThatHasFinishedIsOnlyEvaluated) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out run").exit_code, 0);
  const std::string before = folder_.weights("run", 12),
                    metrics = folder_.contents("run/metrics.jsonl");
  const ProgramResult again = folder_.headcount("train --quiet --resume run --format json");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["steps"], 12);
  EXPECT_EQ(folder_.weights("run", 12), before);
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics);
  const json last = json::parse(metrics.substr(metrics.rfind("{\"step\"")));
  EXPECT_EQ(json::parse(again.out)["val_loss"], last["val_loss"]);
}

TEST_F(ResumedRun, RecordsEveryStart) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out run").exit_code, 0);
  ASSERT_EQ(folder_.headcount("train --quiet --resume run").exit_code, 0);
  const json record = json::parse(folder_.contents("run/run.json"));
  EXPECT_EQ(record["data_sha256"].get<std::string>().size(), 64u);
  ASSERT_EQ(record["starts"].size(), 2u);
  EXPECT_EQ(record["starts"][0]["command"], "headcount " + kRun + "--steps 12 --out run");
  EXPECT_EQ(record["starts"][1]["from_step"], 12);
  EXPECT_EQ(record["starts"][1]["command"], "headcount train --quiet --resume run");
  const std::string version = folder_.headcount("--version").out;
  // The version that --version prints ends with that of MPI, on which no result depends.
  EXPECT_TRUE(version.starts_with(record["starts"][1]["version"].get<std::string>() + ", "));
}

TEST_F(ResumedRun, RefusesAnythingElseThanTheRunByNamingWhatDiffers) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out run").exit_code, 0);
  const std::string metrics = folder_.contents("run/metrics.jsonl");
  expect_refusal("train --resume run --seed 2", 2, "--seed is 2, but the run in run has 1");
  expect_refusal("train --resume run --attention mha", 2, "--attention is \"mha\"");
  expect_refusal("train --resume run --dim 32", 2, "--dim is 32, but the run in run has 16");
  expect_refusal("train --resume run --data tales", 2, "--data is \"tales\"");
  expect_refusal("train --resume run --optimizer muon", 2, "--optimizer is \"muon\"");
  expect_refusal("train --resume run --kv-heads 2", 2, "--kv-heads has no effect");
  expect_refusal("train --resume run --out other", 2, "--out does not go with --resume");
  expect_refusal("train --resume nowhere", 3, "--resume: 'nowhere' is no run folder");
  folder_.file("text.txt", folder_.contents("text.txt") + "0 is 1.\n");
  expect_refusal("train --resume run", 3, "text.txt is no longer the text of the run in run");
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics);
  // With the old text it goes on, and flags that repeat the settings of the run are taken.
  folder_.file("text.txt",
               folder_.contents("text.txt").substr(0, folder_.contents("text.txt").size() - 8));
  EXPECT_EQ(folder_.headcount("train --quiet --resume run --seed 1 --dim 16").exit_code, 0);
}

TEST_F(ResumedRun, RefusesACheckpointOfAnotherModel) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --out run").exit_code, 0);
  ASSERT_EQ(folder_.headcount(kRun + "--steps 12 --kv-rank 5 --out other").exit_code, 0);
  fs::remove_all(folder_ / "run/checkpoints");
  fs::copy(folder_ / "other/checkpoints", folder_ / "run/checkpoints", fs::copy_options::recursive);
  expect_refusal("train --resume run", 2, "--kv-rank is 12 here and 5 there");
}

TEST_F(ResumedRun, KeepsTheNewestCheckpointsAndTheBest) {
  // Evaluations between two checkpoints save one as well if they are the best.
  const std::string flags = "--steps 60 --checkpoint-every 20 --lr 3e-2 --keep 2 --out run";
  ASSERT_EQ(folder_.headcount(kRun + flags).exit_code, 0);
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
  const ProgramResult best = folder_.headcount("eval --best --from run --format json");
  EXPECT_EQ(json::parse(best.out)["loss"], least);
  // The best is not counted among the two.
  std::set<std::string> expected = {"latest", "step-" + std::to_string(best_step)};
  for (auto step = saved.rbegin(); step != saved.rend() && expected.size() < 4; ++step)
    expected.insert("step-" + std::to_string(*step));
  EXPECT_EQ(checkpoints("run"), expected);
}

TEST_F(ResumedRun, EndsWhereItHasLearned) {
  const ProgramResult ended = folder_.train(
      "--steps 400 --eval-every 5 --checkpoint-every 5 --lr 2e-3 --warmup 0 --stop-at-loss 2.5 "
      "--keep 100 --quiet --format json --out whole");
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const json result = json::parse(ended.out);
  const int last = result["learned_at"];
  EXPECT_EQ(result["steps"], last);
  EXPECT_GT(last, 10);
  EXPECT_LT(last, 400);
  EXPECT_LT(result["val_loss"], 2.5);
  const std::string metrics = folder_.contents("whole/metrics.jsonl");
  EXPECT_TRUE(metrics.ends_with(",\"stopped\":true}\n")) << metrics;
  for (const int step : {5, last - 5}) expect_same_end(step, last, "learned_at", last);
  // It has ended, however often it is resumed.
  const std::string text = folder_.headcount("train --quiet --resume whole").out;
  EXPECT_NE(text.find("learned at step " + std::to_string(last) + " of 400"), std::string::npos)
      << text;
  EXPECT_EQ(folder_.contents("whole/metrics.jsonl"), metrics);
}

TEST_F(ResumedRun, EndsWhereEvaluationsStopImproving) {
  const ProgramResult ended = folder_.train(
      "--steps 400 --eval-every 5 --checkpoint-every 5 --lr 0.5 --warmup 0 --dropout 0.1 "
      "--stop-after 3 --keep 100 --quiet --format json --out whole");
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const json result = json::parse(ended.out);
  const int best = result["best_step"], last = best + 15;
  EXPECT_EQ(result["stopped"], true);
  EXPECT_EQ(result["steps"], last);
  EXPECT_LT(last, 400);
  EXPECT_GT(best, 5);
  const std::string metrics = folder_.contents("whole/metrics.jsonl");
  EXPECT_TRUE(metrics.ends_with(",\"stopped\":true}\n")) << metrics;
  EXPECT_EQ(metrics.find("stopped"), metrics.rfind("stopped"));
  EXPECT_EQ(json::parse(folder_.headcount("eval --from whole --best --format json").out)["loss"],
            result["best_val_loss"]);
  EXPECT_EQ(json::parse(folder_.headcount("eval --from whole --format json").out)["loss"],
            result["val_loss"]);
  EXPECT_EQ(folder_.headcount("sample --best --from whole").out,
            folder_.headcount("sample --from whole/checkpoints/step-" + std::to_string(best)).out);
  // Stopped before the best evaluation, after it or shortly before the end, it ends with the same
  // bits at the same step.
  for (const int step : {5, best, last - 5}) expect_same_end(step, last, "best_step", best);
  // It has ended, however often and with however many steps it is resumed.
  EXPECT_EQ(
      json::parse(folder_.headcount("train --format json --quiet --resume whole").out)["steps"],
      last);
  expect_refusal("train --resume whole --steps 500", 2, "--stop-after has ended the run in whole");
  EXPECT_EQ(folder_.contents("whole/metrics.jsonl"), metrics);
  const std::string text = folder_.headcount("train --quiet --resume whole").out;
  const std::string line = "stopped at step " + std::to_string(last) + " of 400: no new lowest";
  EXPECT_NE(text.find(line), std::string::npos) << text;
  ASSERT_EQ(folder_.headcount("report --from whole --out report").exit_code, 0);
  const json curves = json::parse(folder_.contents("report/curves.json"));
  EXPECT_TRUE(curves["runs"][0]["curve"].back().contains("stopped"));
}

TEST_F(ResumedRun, TakesTheModelsSettingsFromItsFolderWithInit) {
  const std::string first =
      "train --data text.txt --layers 2 --dim 24 --heads 2 --attention mla --kv-rank 6 --context "
      "16 "
      "--dropout 0.1 --steps 1 --quiet --out first";
  ASSERT_EQ(folder_.headcount(first).exit_code, 0);
  const std::string second = "train --data text.txt --init first/checkpoints/step-1 --steps 1 ";
  ASSERT_EQ(folder_.headcount(second + "--quiet --out second").exit_code, 0);
  json settings = json::parse(folder_.contents("first/config.json"));
  settings["init"] = "first/checkpoints/step-1";
  settings["dropout"] = 0.0;  // of that training
  EXPECT_EQ(json::parse(folder_.contents("second/config.json")), settings);
  expect_refusal(second + "--attention gqa --heads 3 --kv-rank 6 --dim 48 --out third", 2,
                 "--attention is \"gqa\" here and \"mla\" there, --dim is 48 here and 24 there, "
                 "--heads is 3 here and 2 there;");
  folder_.file("other.txt", std::string(400, 'x') + std::string(400, 'y'));
  expect_refusal("train --data other.txt --init first/checkpoints/step-1 --out third", 3,
                 "lacks 'x'");
  EXPECT_FALSE(folder_.has("third"));
}

TEST_F(ResumedRun, RefusesACheckpointBeyondItsSteps) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 20 --out run").exit_code, 0);
  std::string config = folder_.contents("run/config.json");
  const std::string steps = "\"steps\": 20";
  ASSERT_NE(config.find(steps), std::string::npos);
  folder_.file("run/config.json", config.replace(config.find(steps), steps.size(), "\"steps\": 5"));
  expect_refusal("train --resume run", 3, "run has a checkpoint of step 20, but its --steps are 5");
}

TEST_F(ResumedRun, DoesNotReplaceTheWeightsThatItStartsFrom) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 20 --out first").exit_code, 0);
  const auto before = folder_.weights("first", 20);
  for (const char* const init : {"first", "first/checkpoints/step-20"}) {
    const ProgramResult refused =
        folder_.headcount(kRun + "--steps 1 --init " + init + " --out ./first --force");
    EXPECT_EQ(refused.exit_code, kUsage) << refused.err;
    EXPECT_NE(refused.err.find("lies in --out ./first"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(folder_.weights("first", 20), before);
}

TEST_F(ResumedRun, StartsWithInitInAnotherContextWindowAndBaseOfFrequencies) {
  ASSERT_EQ(folder_.headcount(kRun + "--steps 3 --out first").exit_code, 0);
  const auto go_on = [&](const std::string& flags) {
    return folder_.headcount("train --data text.txt --init first --steps 1 --lr 0 --min-lr 0 " +
                             flags + " --out second --force");
  };
  const ProgramResult second = go_on("--context 24 --attention mla@5 --rope-theta 500");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(folder_.weights("second", 1), folder_.weights("first", 3));
  EXPECT_NE(second.err.find("headcount: the weights of first go on with --window 5 instead of 0, "
                            "--rope-theta 500 instead of 10000, --context 24 instead of 16\n"),
            std::string::npos)
      << second.err;
  expect_refusal("train --resume second --context 16", 2, "--context is 16");
  EXPECT_EQ(go_on("").err.find("go on with"), std::string::npos);
}

TEST_F(ResumedRun, StartsWithInitOnTheFirstLearnedPositionsAndOnNoMore) {
  ASSERT_EQ(folder_.headcount(kRun + "--positions learned --steps 3 --out first").exit_code, 0);
  const std::string go_on = "train --data text.txt --init first --steps 1 --lr 0 --min-lr 0 ";
  const ProgramResult second = folder_.headcount(go_on + "--context 8 --out second");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("later learned positions are left out"), std::string::npos);
  const auto before = folder_.weights("first", 3), after = folder_.weights("second", 1);
  ASSERT_LT(after.size(), before.size());
  expect_refusal(go_on + "--context 17 --out third", 2,
                 "--context 17 is more than the 16 learned positions of first/checkpoints/step-3");
  EXPECT_FALSE(folder_.has("third"));
}

}  // namespace
}  // namespace headcount
