// label: unsanitized
// The runs of a comparison: which are trained, kept, repeated and refused, what each records, and
// how processes that know nothing of each other share them by their folders.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/compare/comparison_folder.h"
#include "train/compare/queue.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(ComparisonRuns, RepeatsOnlyWhatIsNotFinished) {
  const ComparisonFolder folder;
  folder.compared("");
  const json before = folder.results();
  const auto written = std::filesystem::last_write_time(folder / "c/runs/mha/seed-1/result.json");
  // A run without its result, as an interrupted comparison leaves it.
  std::filesystem::remove(folder / "c/runs/mqa/seed-1/result.json");
  expect_parts(folder.compared("").err, {"3 of 4 runs were finished before"});
  EXPECT_EQ(std::filesystem::last_write_time(folder / "c/runs/mha/seed-1/result.json"), written);
  for (const int v : {0, 1}) {
    for (const char* values : {"val_losses", "losses_by_position"})
      EXPECT_EQ(folder.results()["variants"][v][values], before["variants"][v][values]);
  }
  EXPECT_EQ(before["variants"][0]["losses_by_position"].size(), 2u);
  EXPECT_EQ(before["variants"][0]["losses_by_position"][0][0]["from"], 0);
}

// Runs differ from seed to seed by so much that a tolerance of zero leaves the verdict open.
TEST(ComparisonRuns, AddsSeedsUntilTheVerdictIsThere) {
  const ComparisonFolder folder;
  // One by one: side by side, it is chance whether a line finds runs that are needed and may be.
  const std::string flags = kLearning + "--seeds 3..5 --jobs 1 --tolerance ";
  const ProgramResult few = folder.compared(flags + "0.3");
  json r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2, 3}));
  EXPECT_EQ(r["variants"][1]["verdict"], "enough");
  const std::string verdict = r["verdict"]["text"];
  EXPECT_TRUE(verdict.starts_with("mqa is enough: 50 % of mha's KV cache, at ")) << verdict;
  EXPECT_TRUE(few.out.ends_with("report c/report.html\nverdict: " + verdict + "\n")) << few.out;
  const ProgramResult more = folder.compared(flags + "0");
  r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2, 3, 4, 5})) << more.out;
  EXPECT_EQ(r["variants"][1]["verdict"], "open");
  EXPECT_EQ(r["variants"][1]["costs"].size(), 5u);
  expect_parts(more.err, {"6 of 8 runs were finished before", " more if verdicts stay open, ETA ",
                          "(10 of 10 runs done)"});
}

TEST(ComparisonRuns, TakesTheSameSeedsAndBitsHoweverManyGoSideBySide) {
  const ComparisonFolder folder;
  const std::string flags = kLearning + "--attention mha,gqa1,mla --tolerance 0.02 --seeds 2..6";
  for (const std::string jobs : {"1", "4"})
    folder.compared(flags + " --jobs " + jobs + " --out c" + jobs);
  const json one = folder.results("c1"), four = folder.results("c4");
  EXPECT_EQ(one["verdict"], four["verdict"]);
  EXPECT_EQ(one["seeds"], four["seeds"]);
  for (const int v : {0, 1, 2})
    EXPECT_EQ(one["variants"][v]["val_losses"], four["variants"][v]["val_losses"]);
  for (const std::string run : {"/runs/mha/seed-1", "/runs/mla/seed-2", "/runs/gqa1/seed-2"})
    EXPECT_EQ(folder.weights("c1" + run), folder.weights("c4" + run)) << run;
}

// An idle job begins a run that may be needed, and the end of another tells that it is not.
TEST(ComparisonRuns, LeavesARunThatTurnsOutNotToBeNeeded) {
  struct : RunWatcher {
    void update(const std::vector<RunPlan>&, std::span<const RunStatus>,
                std::span<const Need>) override {}
    void step(std::size_t, const StepResult&) override {}
    void finish(std::size_t, const RunStatus&) override {}
  } watcher;
  const Needs needs = [](std::span<const RunStatus> outcomes) {
    return std::vector{Need::now, outcomes[0].ended ? Need::no : Need::maybe};
  };
  const TemporaryFolder folder;
  std::vector<RunPlan> runs;
  for (const char* name : {"first", "second"})
    runs.push_back({name, resolve_training(Given(training_settings())), folder.path() / name, ""});
  const Corpus corpus;
  RunQueue queue(runs, needs, corpus, false, watcher);
  EXPECT_EQ(queue.left(), 2u);
  const auto first = queue.next(), second = queue.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->run, 0u);
  EXPECT_EQ(second->run, 1u);
  EXPECT_TRUE(queue.step(1, {}));
  queue.end(0, {});
  EXPECT_FALSE(queue.step(1, {}));
  EXPECT_FALSE(queue.next());
}

TEST(ComparisonRuns, DoesNotMixRunsOfOtherSettings) {
  const ComparisonFolder folder;
  folder.compared("--attention mha");
  const std::string result = folder.contents("c/runs/mha/seed-1/result.json");
  const ProgramResult other = folder.compare("--attention mha --lr 0.5");
  EXPECT_EQ(other.exit_code, kData);
  EXPECT_EQ(other.err,
            "headcount: c/runs/mha/seed-1 holds a finished run with lr 0.001, not 0.5; name "
            "another folder with --out, or add --force to train all runs again\n");
  folder.expect_refusal(ComparisonFolder::line("--attention mha --optimizer muon"), kData,
                        {"a finished run with optimizer \"adamw\", not \"muon\";"});
  EXPECT_EQ(folder.contents("c/runs/mha/seed-1/result.json"), result);
  folder.file("text.txt", folder.contents("text.txt") + "More of the 0123456789 squares.\n");
  expect_parts(folder.compare("--attention mha").err, {"on another text"});
  folder.compared("--attention mha --force");
}

// `text` with `from` replaced by `to`, which it must hold.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no " + from + " in " + text);
  return text.replace(at, from.size(), to);
}

TEST(ComparisonRuns, NamesTheFileOfARunThatIsDamaged) {
  const ComparisonFolder folder;
  const std::string line = ComparisonFolder::line("--attention mha --quiet");
  folder.done(line);
  const std::string run = "c/runs/mha/seed-2/";
  const auto half = [&](const std::string& file) {
    const std::string whole = folder.contents(run + file);
    return whole.substr(0, whole.size() / 2);
  };
  const std::string record = folder.contents(run + "run.json");
  const struct {
    std::string file, contents, why;
  } cases[] = {
      {"result.json", half("result.json"), "not valid JSON"},
      {"result.json", "[]", "cannot use at()"},
      {"run.json", half("run.json"), "not valid JSON"},
      {"run.json", edited(record, "\"starts\": [", "\"starts\": 3, \"more\": ["),
       "actual type is number"},
      {"run.json", edited(record, "\"version\": \"", "\"version\": 3, \"more\": \""),
       "type must be string"},
  };
  for (const auto& c : cases) {
    const std::string before = folder.contents(run + c.file);
    folder.file(run + c.file, c.contents);
    expect_refusal(folder.headcount(line), kData,
                   {run + c.file + " is damaged", c.why, "remove c/runs/mha/seed-2 to train"},
                   c.contents);
    folder.file(run + c.file, before);
  }
  folder.done(line);
  // A result that nobody can look at is not absent: nothing is trained in its place.
  std::filesystem::remove(folder / (run + "result.json"));
  std::filesystem::create_symlink("result.json", folder / (run + "result.json"));
  folder.expect_refusal(line, kData,
                        {run + "result.json' cannot be read: Too many levels of symbolic links"});
}

// Each run records what trained it. Records are edited as if a program built otherwise, on another
// machine, had trained the first runs: the results are those of that program, and speeds of its
// runs alone.
TEST(ComparisonRuns, TakesSpeedsOfOneBuildAndMachine) {
  const ComparisonFolder folder;
  folder.compared("--attention mha --quiet");
  const json first = folder.results();
  const std::string version = "headcount 0.1.0, Clang 14.0.6, SSE2", machine = "Pentium III";
  for (const std::string seed : {"1", "2"}) {
    const std::string file = "c/runs/mha/seed-" + seed + "/run.json";
    json record = folder.json(file);
    json& start = record["starts"][0];
    for (const char* name : {"command", "version"}) EXPECT_EQ(start[name], first[name]);
    EXPECT_TRUE(
        first["machine"].get<std::string>().starts_with(start["machine"].get<std::string>()));
    start["version"] = version;
    start["machine"] = machine;
    folder.file(file, record.dump());
  }
  expect_parts(folder.compared("--seeds 3").err, {"2 of 6 runs were finished before"});
  const json r = folder.results();
  EXPECT_EQ(r["version"], version);
  expect_parts(r["machine"], {machine + "; runs side by side: "});
  EXPECT_EQ(r["variants"][0]["val_losses"].size(), 3u);
  // All runs of mqa were trained by another program than that of the results.
  EXPECT_TRUE(r["variants"][1]["train_tokens_per_second"].is_null());
}

std::string shared(const std::string& flags) {
  return ComparisonFolder::line("--threads 1 --jobs 1 --attention mha,gqa1,mla --quiet " + flags);
}

nlohmann::ordered_json untimed_results(const TrainFolder& folder) {
  return without_timing(folder.contents("c/results.json"));
}

// Starts of the program that trained a run of the folder c.
json starts(const TrainFolder& folder, const std::string& run) {
  return folder.json("c/runs/" + run + "/run.json")["starts"];
}

TEST(ProcessesOfAComparison, GiveTheResultsOfOneWhenOneIsKilledAndOneJoinsLate) {
  const std::string line =
      shared("--seeds 2..4 --tolerance 0 --steps 400 --lr 1e-2 --checkpoint-every 100");
  const TrainFolder folder, whole;
  const pid_t killed = folder.halted(line, 150), halted = folder.halted(line, 150);
  // This one trains all runs but two, and waits for those.
  const pid_t through = folder.start(line, "", "through.");
  kill(killed, SIGKILL);
  EXPECT_EQ(exit_code_of(killed), 128 + SIGKILL);
  kill(halted, SIGCONT);
  const pid_t late = folder.start(line, "", "late.");
  for (const pid_t process : {through, halted, late}) EXPECT_EQ(exit_code_of(process), 0);
  const ProgramResult one = whole.done(line);
  EXPECT_EQ(untimed_results(folder), untimed_results(whole));
  EXPECT_TRUE(folder.has("c/report.html"));
  for (const std::string out : {"out", "through.out", "late.out"}) {
    const std::string text = folder.contents(out);
    EXPECT_EQ(text.substr(text.find("report ")), one.out.substr(one.out.find("report ")));
  }
  const auto resumed = starts(folder, "mha/seed-1"), waited_for = starts(folder, "gqa1/seed-1");
  ASSERT_EQ(resumed.size(), 2u) << resumed;
  EXPECT_EQ(resumed[1]["from_step"], 100);
  EXPECT_EQ(waited_for.size(), 1u) << waited_for;
}

TEST(ProcessesOfAComparison, TellEachOtherThatRunsDiverged) {
  const std::string line = shared("--lr 100 --grad-clip 0 --steps 40 --warmup 0");
  const TrainFolder folder, whole;
  const pid_t halted = folder.halted(line, 1), other = folder.start(line, "", "other.");
  kill(halted, SIGCONT);
  for (const pid_t process : {halted, other}) EXPECT_EQ(exit_code_of(process), kDiverged);
  const ProgramResult again = folder.headcount(line);
  EXPECT_EQ(again.exit_code, kDiverged) << again.err;
  expect_parts(again.out, {"became"});
  for (const std::string run : {"mha/seed-1", "gqa1/seed-2", "mla/seed-1"})
    EXPECT_EQ(starts(folder, run).size(), 1u) << "it would diverge again";
  EXPECT_EQ(whole.headcount(line).exit_code, kDiverged);
  EXPECT_EQ(untimed_results(folder), untimed_results(whole));
  // Failures are those of the settings.
  EXPECT_EQ(folder.headcount(line + " --dropout 0.1").exit_code, kDiverged);
  EXPECT_EQ(folder.json("c/runs/mha/seed-1/config.json")["dropout"], 0.1);
}

TEST(ProcessesOfAComparison, GoOnAfterAFailedRunAndTryItAgain) {
  const std::string run = "c/runs/mla/seed-2";
  const ComparisonFolder folder;
  std::filesystem::create_directories(folder / "c/runs/mla");
  folder.file(run, "not a folder");
  const ProgramResult failed = folder.headcount(shared(""));
  EXPECT_EQ(failed.exit_code, kRuntime);
  expect_parts(failed.out, {"mla, seed 2: "});
  EXPECT_EQ(folder.contents(run), "not a folder");
  const std::vector<std::vector<int>> seeds = {{1, 2}, {1, 2}, {1}};
  for (const std::size_t variant : {0, 1, 2})
    EXPECT_EQ(folder.results()["variants"][variant]["seeds"], seeds[variant]);
  std::filesystem::remove(folder / run);
  std::filesystem::create_directories(folder / run);
  folder.file(run + "/thesis.txt", "precious");
  EXPECT_EQ(folder.headcount(shared("")).exit_code, kRuntime);
  EXPECT_TRUE(folder.has(run + "/failed.json"));
  std::filesystem::remove(folder / (run + "/thesis.txt"));
  folder.done(shared(""));
  EXPECT_FALSE(folder.has(run + "/failed.json"));
}

TEST(ProcessesOfAComparison, AreWhatAnArrayOfSlurmStarts) {
  const TrainFolder folder;
  std::string line = shared("--steps 2");
  line.erase(line.find("--threads 1 "), std::string("--threads 1 ").size());
  for (const std::string task : {"4", "5"}) {
    const ProgramResult result = folder.shell(
        "HEADCOUNT=headcount SLURM_ARRAY_TASK_ID=" + task +
        " SLURM_NTASKS=1 bash '" HEADCOUNT_FIXTURE_FOLDER "/../../train/cluster.sbatch' " + line);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(folder.has("c/results.json"));
}

}  // namespace
}  // namespace headcount
