// label: unsanitized
// The runs of a comparison: which are trained, kept, repeated and refused, and what each records.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/queue.h"
#include "train/compare/small_comparison.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(ComparisonRuns, RepeatsOnlyWhatIsNotFinished) {
  const TrainFolder folder;
  const std::string flags = "--attention mha,mqa --seeds 2 --out c";
  ASSERT_EQ(compare(folder, flags).exit_code, 0);
  const json before = results(folder, "c");
  const auto written = std::filesystem::last_write_time(folder / "c/runs/mha/seed-1/result.json");
  // A run without its result, as an interrupted comparison leaves it.
  std::filesystem::remove(folder / "c/runs/mqa/seed-1/result.json");
  const ProgramResult again = compare(folder, flags);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("3 of 4 runs were finished before"), std::string::npos) << again.err;
  EXPECT_EQ(std::filesystem::last_write_time(folder / "c/runs/mha/seed-1/result.json"), written);
  for (int v : {0, 1}) {
    for (const char* values : {"val_losses", "losses_by_position"})
      EXPECT_EQ(results(folder, "c")["variants"][v][values], before["variants"][v][values]);
  }
  EXPECT_EQ(before["variants"][0]["losses_by_position"].size(), 2u);
  EXPECT_EQ(before["variants"][0]["losses_by_position"][0][0]["from"], 0);
}

// Runs whose seeds differ far more than a tolerance of nothing lets a verdict be told.
const std::string kOpen = kLearning + "--attention mha,mqa --seeds 3..5 --tolerance ";

TEST(ComparisonRuns, AddsSeedsUntilTheVerdictIsThere) {
  const TrainFolder folder;
  const ProgramResult few = compare(folder, kOpen + "0.3 --jobs 1 --out c");
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_EQ(results(folder, "c")["seeds"], json({1, 2, 3}));
  EXPECT_EQ(results(folder, "c")["variants"][1]["verdict"], "enough");
  const std::string verdict = results(folder, "c")["verdict"]["text"];
  EXPECT_TRUE(verdict.starts_with("mqa is enough: 50 % of mha's KV cache, at ")) << verdict;
  EXPECT_TRUE(few.out.ends_with("report c/report.html\nverdict: " + verdict + "\n")) << few.out;
  // One by one: side by side, it is chance whether a line finds runs that are needed and may be.
  const ProgramResult more = compare(folder, kOpen + "0 --jobs 1 --out c");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const json r = results(folder, "c");
  EXPECT_EQ(r["seeds"], json({1, 2, 3, 4, 5})) << more.out;
  EXPECT_EQ(r["variants"][1]["verdict"], "open");
  EXPECT_EQ(r["variants"][1]["costs"].size(), 5u);
  EXPECT_NE(more.err.find("6 of 8 runs were finished before"), std::string::npos) << more.err;
  EXPECT_NE(more.err.find(" more if verdicts stay open, ETA "), std::string::npos) << more.err;
  EXPECT_NE(more.err.find("(10 of 10 runs done)"), std::string::npos) << more.err;
}

TEST(ComparisonRuns, TakesTheSameSeedsAndBitsHoweverManyGoSideBySide) {
  const TrainFolder folder;
  const std::string flags = kLearning + "--attention mha,gqa1,mla --tolerance 0.02 --seeds 2..6";
  for (const std::string jobs : {"1", "4"})
    ASSERT_EQ(compare(folder, flags + " --jobs " + jobs + " --out c" + jobs).exit_code, 0);
  const json one = results(folder, "c1"), four = results(folder, "c4");
  EXPECT_EQ(one["verdict"], four["verdict"]);
  EXPECT_EQ(one["seeds"], four["seeds"]);
  for (int v : {0, 1, 2})
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
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c").exit_code, 0);
  const std::string result = folder.contents("c/runs/mha/seed-1/result.json");
  const ProgramResult other = compare(folder, "--attention mha --seeds 2 --lr 0.5 --out c");
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_EQ(other.err,
            "headcount: c/runs/mha/seed-1 holds a finished run with lr 0.001, not 0.5; name "
            "another folder with --out, or add --force to train all runs again\n");
  const ProgramResult muon = compare(folder, "--attention mha --seeds 2 --optimizer muon --out c");
  EXPECT_EQ(muon.exit_code, 3);
  EXPECT_NE(muon.err.find("a finished run with optimizer \"adamw\", not \"muon\";"),
            std::string::npos)
      << muon.err;
  EXPECT_EQ(folder.contents("c/runs/mha/seed-1/result.json"), result);
  folder.file("text.txt", folder.contents("text.txt") + "More of the 0123456789 squares.\n");
  EXPECT_NE(compare(folder, "--attention mha --seeds 2 --out c").err.find("on another text"),
            std::string::npos);
  EXPECT_EQ(compare(folder, "--attention mha --seeds 2 --out c --force").exit_code, 0);
}

// `text` with `from` replaced by `to`, which it must hold.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no " + from + " in " + text);
  return text.replace(at, from.size(), to);
}

TEST(ComparisonRuns, NamesTheFileOfARunThatIsDamaged) {
  const TrainFolder folder;
  const std::string flags = "--attention mha --seeds 2 --out c --quiet";
  ASSERT_EQ(compare(folder, flags).exit_code, 0);
  const std::string run = "c/runs/mha/seed-2/";
  const std::string result = folder.contents(run + "result.json");
  const std::size_t digit = result.find("\"val_loss\": ") + 14;
  std::string flipped = result;
  flipped[digit] = static_cast<char>(flipped[digit] ^ 1);
  const json without_sum = [&] {
    json object = json::parse(result);
    object.erase("sha256");
    return object;
  }();
  const std::string config = folder.contents(run + "config.json");
  const std::string record = folder.contents(run + "run.json");
  const struct {
    std::string file, contents, why;
  } cases[] = {
      {"result.json", flipped, "its checksum differs"},
      {"result.json", result.substr(0, result.size() / 2), "not valid JSON"},
      {"result.json", "[]", "it must be a JSON object"},
      {"result.json", without_sum.dump(), "it has no checksum, as an older headcount wrote it"},
      {"config.json", config.substr(0, config.size() / 2), "not valid JSON"},
      {"config.json", "3", "it must be a JSON object"},
      {"run.json", record.substr(0, record.size() / 2), "not valid JSON"},
      {"run.json", edited(record, "\"starts\": [", "\"starts\": 3, \"more\": ["),
       "'starts' must be"},
      {"run.json", edited(record, "\"version\": \"", "\"version\": 3, \"more\": \""),
       "'version' must be a text, is 3"},
  };
  for (const auto& c : cases) {
    const std::string before = folder.contents(run + c.file);
    folder.file(run + c.file, c.contents);
    expect_refusal(compare(folder, flags), 3,
                   {run + c.file + " is damaged", c.why, "remove c/runs/mha/seed-2 to train"},
                   c.contents);
    folder.file(run + c.file, before);
  }
  EXPECT_EQ(compare(folder, flags).exit_code, 0);
  // A result that nobody can look at is not absent: nothing is trained in its place.
  std::filesystem::remove(folder / (run + "result.json"));
  std::filesystem::create_symlink("result.json", folder / (run + "result.json"));
  expect_refusal(compare(folder, flags), 3,
                 {run + "result.json' cannot be read: Too many levels of symbolic links"},
                 "a loop");
}

// Each run records what trained it. Records are edited as if a program built otherwise, on another
// machine, had trained the first runs: the results are those of that program, and speeds of its
// runs alone.
TEST(ComparisonRuns, TakesSpeedsOfOneBuildAndMachine) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c --quiet").exit_code, 0);
  const json first = results(folder, "c");
  for (const std::string seed : {"1", "2"}) {
    const std::string file = "c/runs/mha/seed-" + seed + "/run.json";
    json record = json::parse(folder.contents(file));
    const json& start = record["starts"][0];
    for (const char* name : {"command", "version"}) EXPECT_EQ(start[name], first[name]);
    EXPECT_TRUE(
        first["machine"].get<std::string>().starts_with(start["machine"].get<std::string>()));
    record["starts"][0]["version"] = "headcount 0.1.0, Clang 14.0.6, SSE2";
    record["starts"][0]["machine"] = "Pentium III";
    folder.file(file, record.dump());
  }
  const ProgramResult more = compare(folder, "--attention mha,mqa --seeds 3 --out c");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("2 of 6 runs were finished before"), std::string::npos) << more.err;
  const json r = results(folder, "c");
  EXPECT_EQ(r["version"], "headcount 0.1.0, Clang 14.0.6, SSE2");
  EXPECT_TRUE(r["machine"].get<std::string>().starts_with("Pentium III; runs side by side: "));
  EXPECT_EQ(r["variants"][0]["val_losses"].size(), 3u);
  // All runs of mqa were trained by another program than that of the results.
  EXPECT_TRUE(r["variants"][1]["train_tokens_per_second"].is_null());
}

}  // namespace
}  // namespace headcount
