// label: unsanitized
// The runs of a comparison: which are trained, kept, repeated and refused, what each records, and
// how processes that know nothing of each other share them by their folders.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/comparison_folder.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(ComparisonRuns, RepeatsOnlyWhatIsNotFinished) {
  const ComparisonFolder folder;
  folder.compared("");
  const json before = folder.results();
  const std::string kept = "c/runs/mha/seed-1/run.json", left = "c/runs/mqa/seed-1/run.json";
  const auto written = std::filesystem::last_write_time(folder / kept);
  // A run without its result, as an interrupted comparison leaves it.
  json record = folder.json(left);
  record["status"] = "unfinished";
  record.erase("result");
  folder.file(left, record.dump());
  expect_parts(folder.compared("").err, {"3 of 4 runs finished in an earlier call"});
  EXPECT_EQ(std::filesystem::last_write_time(folder / kept), written);
  const json after = folder.results();
  for (const int v : {0, 1}) {
    for (const char* figure : {"val_loss", "loss_by_position"})
      EXPECT_EQ(after["variants"][v]["runs"][0][figure], before["variants"][v]["runs"][0][figure]);
  }
}

// Runs differ from seed to seed by so much that a tolerance of zero leaves the verdict open.
TEST(ComparisonRuns, AddsSeedsUntilTheVerdictIsThere) {
  const ComparisonFolder folder;
  const std::string flags = kLearning + "--eval-every 0 --seeds 3..5 --jobs 1 --tolerance ";
  const ProgramResult few = folder.compared(flags + "0.3");
  json r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2, 3}));
  EXPECT_EQ(r["variants"][1]["verdict"], "enough");
  expect_parts(few.out, {"report c/report.html\nverdict: mqa is enough: 50 % of mha's KV cache"});
  const ProgramResult more = folder.compared(flags + "0");
  r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2, 3, 4, 5})) << more.out;
  EXPECT_EQ(r["variants"][1]["verdict"], "undecided");
  expect_parts(more.err, {"6 of 6 runs finished in an earlier call", "(7 of 8 runs done, ETA ",
                          "(8 of 8 runs done)", "(10 of 10 runs done)"});
}

TEST(ComparisonRuns, DoesNotMixRunsOfOtherSettings) {
  const ComparisonFolder folder;
  folder.compared("--attention mha");
  const std::string record = folder.contents("c/runs/mha/seed-1/run.json");
  for (const char* file : {"c/report.html", "c/results.json"})  // as if it had been stopped
    std::filesystem::remove(folder / file);
  folder.expect_refusal(ComparisonFolder::line("--attention mha --lr 0.5"), kUsage,
                        {"c/runs/mha/seed-1 holds a finished run with lr 0.001, not 0.5; name "
                         "another folder with --out, or add --force to train all runs again"});
  EXPECT_EQ(folder.contents("c/runs/mha/seed-1/run.json"), record);
  folder.file("text.txt", folder.contents("text.txt") + "More of the 0123456789 squares.\n");
  expect_parts(folder.compare("--attention mha").err, {"on another text"});
  folder.compared("--attention mha --force");
}

TEST(ComparisonRuns, NamesTheFileOfARunThatIsDamaged) {
  const ComparisonFolder folder;
  const std::string line = ComparisonFolder::line("--attention mha --quiet");
  folder.done(line);
  const std::string file = "c/runs/mha/seed-2/run.json", whole = folder.contents(file);
  const auto with = [&](const char* place, const json& value) {
    json record = json::parse(whole);
    record[json::json_pointer(place)] = value;
    return record.dump();
  };
  const std::pair<std::string, std::string> cases[] = {
      {whole.substr(0, whole.size() / 2), "not valid JSON"},
      {"[]", "'data_sha256' is missing"},
      {with("/starts", 3), "'starts' is 3: type must be array, but is number"},
      {with("/starts/0/version", 3), "type must be string"},
      {with("/settings", 3), "'settings' is no object"},
      {with("/result/val_loss", nullptr), "'val_loss' is missing"},
  };
  for (const auto& [contents, why] : cases) {
    folder.file(file, contents);
    expect_refusal(folder.headcount(line), kData,
                   {file + " is damaged", why, "remove c/runs/mha/seed-2 to train"}, contents);
  }
  // A record that nobody can look at is not absent: nothing is trained in its place.
  std::filesystem::remove(folder / file);
  std::filesystem::create_symlink("run.json", folder / file);
  folder.expect_refusal(line, kData,
                        {file + "' cannot be read: Too many levels of symbolic links"});
}

// Each result says what trained it. Those of the first runs are edited as if a program built
// otherwise, on another machine, had: the results are those of that program, and speeds of its runs
// alone.
TEST(ComparisonRuns, TakesSpeedsOfOneBuildAndMachine) {
  const ComparisonFolder folder;
  folder.compared("--attention mha --quiet");
  const json first = folder.results();
  const std::string version = "headcount 0.1.0", machine = "Pentium III";
  for (const std::string seed : {"1", "2"}) {
    const std::string file = "c/runs/mha/seed-" + seed + "/run.json";
    json record = folder.json(file);
    for (const char* name : {"version", "machine"}) EXPECT_EQ(record["result"][name], first[name]);
    record["result"].update({{"version", version}, {"machine", machine}});
    folder.file(file, record.dump());
  }
  expect_parts(folder.compared("--seeds 3").err, {"2 of 6 runs finished in an earlier call"});
  const json r = folder.results();
  EXPECT_EQ(r["version"], version);
  EXPECT_EQ(r["machine"], machine);
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
  const std::string line = shared(
      "--seeds 2..4 --tolerance 0 --steps 400 --lr 1e-2 --checkpoint-every 100 --eval-every 0");
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
  // Failures are those of the settings. The results of the other comparison would be kept.
  for (const char* const file : {"c/results.json", "c/report.html"})
    std::filesystem::remove(folder / file);
  EXPECT_EQ(folder.headcount(line + " --dropout 0.1").exit_code, kDiverged);
  EXPECT_EQ(folder.settings("c/runs/mha/seed-1")["dropout"], 0.1);
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
  const json variants = folder.results()["variants"];
  for (const std::size_t v : {0, 1, 2}) EXPECT_EQ(variants[v]["seeds"], v < 2 ? 2 : 1);
  std::filesystem::remove(folder / run);
  std::filesystem::create_directories(folder / run);
  folder.file(run + "/thesis.txt", "precious");
  EXPECT_EQ(folder.headcount(shared("")).exit_code, kRuntime);
  EXPECT_FALSE(folder.has(run + "/run.json"));
  std::filesystem::remove(folder / (run + "/thesis.txt"));
  folder.done(shared(""));
  EXPECT_EQ(folder.json(run + "/run.json")["status"], "finished");
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
