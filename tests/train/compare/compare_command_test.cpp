// headcount compare as a user runs it, on models that train in milliseconds.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

const std::string kSmall =
    "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3 --threads 2";

ProgramResult compare(const TrainFolder& folder, const std::string& flags) {
  return folder.headcount("compare " + over_defaults(kSmall, flags));
}

json results(const TrainFolder& folder, const std::string& out) {
  return json::parse(folder.contents(out + "/results.json"));
}

TEST(CompareCommand, LeavesATableAndEverythingBehindIt) {
  const TrainFolder folder;
  const ProgramResult result = compare(folder, "--attention mha,mqa --seeds 2 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("mqa"), std::string::npos);
  EXPECT_NE(result.out.find("report c/report.html"), std::string::npos);
  for (const char* file : {"results.json", "results.csv", "report.html", "loss_against_cache.svg",
                           "runs/mha/seed-1/metrics.jsonl", "runs/mqa/seed-2/config.json",
                           "runs/mqa/seed-2/checkpoints/step-3/model.safetensors"}) {
    EXPECT_TRUE(folder.has("c/" + std::string(file))) << file;
  }
  const json r = results(folder, "c");
  EXPECT_EQ(r["seeds"], json({1, 2}));
  EXPECT_EQ(r["variants"].size(), 2u);
  // 1 layer, k and v of 2 heads, or of one, of 8 numbers of 4 bytes.
  EXPECT_EQ(r["variants"][0]["kv_cache_bytes_per_token"], 128);
  EXPECT_EQ(r["variants"][1]["kv_cache_bytes_per_token"], 64);
  EXPECT_GT(r["variants"][0]["decode_tokens_per_second"], 0);
  EXPECT_EQ(r["command"], "headcount compare " + kSmall + " --attention mha,mqa --seeds 2 --out c");
}

TEST(CompareCommand, SaysOnHowMuchOfTheTextItEvaluatedWhereThatIsLimited) {
  const TrainFolder folder;
  const ProgramResult all = compare(folder, "--attention mha,mqa --seeds 2 --out c --quiet");
  EXPECT_EQ(all.out.find("Evaluated on"), std::string::npos);
  const std::string limited = "--attention mha,mqa --seeds 2 --quiet --eval-characters 30 --out ";
  const ProgramResult result = compare(folder, limited + "d");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string note = "Evaluated on the first 30 characters of the validation part";
  EXPECT_NE(result.out.find(note), std::string::npos) << result.out;
  EXPECT_NE(folder.contents("d/report.html").find(note), std::string::npos);
  EXPECT_EQ(folder.contents("d/report.html").find("the whole validation"), std::string::npos);
  EXPECT_NE(folder.contents("c/report.html").find("the whole validation"), std::string::npos);
  EXPECT_EQ(results(folder, "d")["config"]["eval-characters"], 30);
  // Runs that were evaluated on all are others.
  const ProgramResult mixed = compare(folder, limited + "c");
  EXPECT_EQ(mixed.exit_code, kData);
  EXPECT_NE(mixed.err.find("without eval-characters"), std::string::npos) << mixed.err;
}

TEST(CompareCommand, TrainsWhatTrainTrains) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention gqa1,mla --seeds 2 --out c --quiet").exit_code, 0);
  const ProgramResult alone =
      folder.train("--attention gqa --kv-heads 1 --seed 2 --eval-every 0 --out alone --json");
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(results(folder, "c")["variants"][0]["val_losses"][1],
            json::parse(alone.out)["val_loss"]);
  EXPECT_EQ(folder.contents("c/runs/gqa1/seed-2/metrics.jsonl"),
            folder.contents("alone/metrics.jsonl"));
}

TEST(CompareCommand, GivesTheSameBitsSideBySideAndOneAfterTheOther) {
  const TrainFolder folder;
  for (const std::string jobs : {"1", "3"}) {
    const ProgramResult result =
        compare(folder, "--attention mha,mla,gqa --seeds 3 --jobs " + jobs + " --out c" + jobs);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  for (const std::string run : {"mha/seed-1", "mla/seed-2", "gqa/seed-3"}) {
    const std::string weights = "/runs/" + run + "/checkpoints/step-3/model.safetensors";
    EXPECT_EQ(folder.contents("c1" + weights), folder.contents("c3" + weights)) << run;
  }
}

TEST(CompareCommand, RepeatsOnlyWhatIsNotFinished) {
  const TrainFolder folder;
  const std::string flags = "--attention mha,mqa --seeds 2 --out c";
  ASSERT_EQ(compare(folder, flags).exit_code, 0);
  const json before = results(folder, "c");
  const auto written = std::filesystem::last_write_time(folder / "c/runs/mha/seed-1/result.json");
  // As an interrupted comparison leaves a run: begun, without its result.
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

TEST(CompareCommand, GoesOnWithMoreSeedsAndMoreAttentions) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c").exit_code, 0);
  const ProgramResult more = compare(folder, "--attention mha,mqa --seeds 3 --out c");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("2 of 6 runs were finished before"), std::string::npos) << more.err;
}

TEST(CompareCommand, LeavesNoChartOfEarlierResults) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha,mqa --seeds 2 --out c").exit_code, 0);
  ASSERT_TRUE(folder.has("c/differences.svg"));
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c").exit_code, 0);
  EXPECT_FALSE(folder.has("c/differences.svg"));
  EXPECT_TRUE(folder.has("c/training_loss.svg"));
}

// Enough for losses half of those of character pairs.
const std::string kLearning = "--steps 400 --lr 1e-2 ";

TEST(CompareCommand, EndsWithTheVerdict) {
  const TrainFolder folder;
  const ProgramResult result =
      compare(folder, kLearning + "--attention mqa,mha --seeds 4 --out c --tolerance 0.3");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string verdict = results(folder, "c")["verdict"]["text"];
  EXPECT_TRUE(verdict.starts_with("mqa is enough: 64 B of KV cache per token, 50 % of mha's, at "))
      << verdict;
  EXPECT_TRUE(result.out.ends_with("report c/report.html\nverdict: " + verdict + "\n"))
      << result.out;
}

// Runs whose seeds differ far more than a tolerance of nothing lets a verdict be told.
const std::string kOpen = kLearning + "--attention mha,mqa --seeds 3..5 --tolerance ";

TEST(CompareCommand, AddsSeedsUntilTheVerdictIsThere) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, kOpen + "0.3 --jobs 1 --out c").exit_code, 0);
  EXPECT_EQ(results(folder, "c")["seeds"], json({1, 2, 3}));
  EXPECT_EQ(results(folder, "c")["variants"][1]["verdict"], "enough");
  // One by one: side by side, it is chance whether a line finds runs that are needed and may be.
  const ProgramResult more = compare(folder, kOpen + "0 --jobs 1 --out c");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const json r = results(folder, "c");
  EXPECT_EQ(r["seeds"], json({1, 2, 3, 4, 5})) << more.out;
  EXPECT_EQ(r["variants"][1]["verdict"], "open");
  EXPECT_EQ(r["variants"][1]["costs"].size(), 5u);
  EXPECT_NE(more.err.find("6 of 8 runs were finished before"), std::string::npos) << more.err;
  EXPECT_NE(more.err.find(" more that may be needed "), std::string::npos) << more.err;
  EXPECT_NE(more.err.find("(10 of 10 runs done)"), std::string::npos) << more.err;
}

TEST(CompareCommand, TakesTheSameSeedsHoweverManyRunsGoSideBySide) {
  const TrainFolder folder;
  const std::string flags = kLearning + "--attention mha,gqa1,mla --tolerance 0.02 --seeds 2..6";
  for (const std::string jobs : {"1", "4"})
    ASSERT_EQ(compare(folder, flags + " --jobs " + jobs + " --out c" + jobs).exit_code, 0);
  const json one = results(folder, "c1"), four = results(folder, "c4");
  EXPECT_EQ(one["verdict"], four["verdict"]);
  EXPECT_EQ(one["seeds"], four["seeds"]);
  for (int v : {0, 1, 2})
    EXPECT_EQ(one["variants"][v]["val_losses"], four["variants"][v]["val_losses"]);
}

// An idle job begins a fourth seed, which the verdict over three makes needless.
TEST(CompareCommand, LeavesARunThatTurnsOutNotToBeNeeded) {
  const TrainFolder folder;
  // Runs long enough for a busy machine to give them all about the same time.
  const ProgramResult result = compare(
      folder, "--attention mha,mqa --seeds 3..6 --tolerance 0.3 --steps 3000 --jobs 4 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(results(folder, "c")["seeds"], json({1, 2, 3}));
  EXPECT_NE(result.err.find("(6 of 6 runs done)"), std::string::npos) << result.err;
  for (const std::string attention : {"mha", "mqa"}) {
    for (const std::string seed : {"5", "6"})
      EXPECT_FALSE(folder.has("c/runs/" + attention + "/seed-" + seed + "/result.json"));
  }
}

TEST(CompareCommand, GoesOnAfterAKillWithTheSeedsThatWereAdded) {
  const TrainFolder folder;
  const std::string flags = kOpen + "0 --out ";
  ASSERT_EQ(compare(folder, flags + "whole").exit_code, 0);
  std::vector<std::string> arguments = {"compare"};
  std::istringstream words(over_defaults(kSmall, flags + "killed"));
  for (std::string word; words >> word;) arguments.push_back(word);
  const pid_t process = start_program(arguments, folder.path(), folder / "out", folder / "err");
  while (!folder.has("killed/runs/mqa/seed-3/result.json") &&
         waitpid(process, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  ASSERT_FALSE(folder.has("killed/results.json")) << "it had ended before it was killed";
  const ProgramResult rest = compare(folder, flags + "killed");
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_NE(rest.err.find(" runs were finished before"), std::string::npos) << rest.err;
  EXPECT_EQ(results(folder, "killed")["verdict"], results(folder, "whole")["verdict"]);
  EXPECT_EQ(results(folder, "killed")["variants"][1]["val_losses"],
            results(folder, "whole")["variants"][1]["val_losses"]);
}

TEST(CompareCommand, JudgesByAnswersWhereTheLossCountsNothingElse) {
  const TrainFolder folder;
  const std::string lookups = "--attention mha,mqa --data lookup --context 16 --out ";
  const ProgramResult result = compare(folder, lookups + "c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("points lost"), std::string::npos) << result.out;
  EXPECT_EQ(results(folder, "c")["verdict"]["metric"], "answers");
  EXPECT_EQ(results(folder, "c")["verdict"]["tolerance"], 5);
  EXPECT_EQ(results(folder, "c")["seeds"].size(), 5u);
  ASSERT_EQ(compare(folder, lookups + "c2 --metric loss --warmup 0").exit_code, 0);
  EXPECT_EQ(results(folder, "c2")["verdict"]["metric"], "loss");
  EXPECT_EQ(results(folder, "c2")["seeds"].size(), 3u);
}

// Nothing is enough that learned nothing, and no difference between such models is one.
TEST(CompareCommand, DecidesNothingBesideAReferenceThatLearnedNothing) {
  const TrainFolder folder;
  const auto verdict = [&](const std::string& flags) {
    const ProgramResult result =
        folder.headcount("compare --attention mha,mqa,mla4+0 --out c --force --quiet " + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json r = results(folder, "c");
    EXPECT_TRUE(r["verdict"]["enough"].is_null()) << flags;
    for (const int v : {1, 2}) EXPECT_EQ(r["variants"][v]["verdict"], "open") << flags;
    const std::string text = r["verdict"]["text"];
    EXPECT_TRUE(result.out.ends_with("verdict: " + text + "\n")) << result.out;
    return text;
  };
  const std::string lookups = "--data lookup --seeds 5 --steps 5 ";
  EXPECT_EQ(verdict(lookups),
            "nothing can be decided: the 5 steps are fewer than the warm-up of 20; train "
            "longer or shorten the warm-up");
  const std::string unlearned = verdict(lookups + "--warmup 0 --tolerance 90");
  EXPECT_TRUE(unlearned.starts_with("nothing can be decided: mha, the reference, has "))
      << unlearned;
  EXPECT_NE(unlearned.find("guessing has 1.3863; train longer"), std::string::npos) << unlearned;
  const std::string small = over_defaults(kSmall, "--steps 20 --warmup 0 --heads 4 --dim 32");
  const std::string pairs = verdict(small + " --seeds 2..9 --tolerance 100");
  EXPECT_NE(pairs.find("a bigram model has "), std::string::npos) << pairs;
  EXPECT_EQ(results(folder, "c")["seeds"].size(), 2u) << "more seeds do not teach it more";
}

TEST(CompareCommand, ShortensAWarmUpThatIsLongerThanTheRunAndSaysSo) {
  const TrainFolder folder;
  const ProgramResult result =
      compare(folder, "--attention mha,mqa --seeds 2 --steps 40 --warmup 50 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("The warm-up of 50 steps is longer than the run of 40 steps; it is "
                            "shortened to a tenth of the run.\n"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(json::parse(folder.contents("c/runs/mha/seed-1/config.json"))["warmup"], 4);
}

TEST(CompareCommand, AloneAsksWhichCacheIsEnoughForLookups) {
  const TrainFolder folder;
  const std::string help = folder.headcount("compare --help").out;
  for (const char* shown : {"[lookup]", "[mha,gqa2,mqa,mla8+0,mla4+0]"})
    EXPECT_NE(help.find(shown), std::string::npos) << shown;
  const ProgramResult result =
      folder.headcount("compare --steps 2 --seeds 2 --threads 2 --quiet --json --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = json::parse(result.out);
  EXPECT_EQ(r["data"], "lookup");
  EXPECT_EQ(r["variants"].size(), 5u);
  EXPECT_EQ(r["variants"][3]["spec"], "mla8+0");
  EXPECT_EQ(r["verdict"]["metric"], "answers");
  EXPECT_EQ(r["verdict"]["tolerance"], 5);
  EXPECT_EQ(r["config"]["context"], 16);
  EXPECT_EQ(r["answer_baselines"]["guesser"], 0.25);
}

TEST(CompareCommand, AsksOtherTextsForTheirLossOnThreeSeeds) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--out c --quiet").exit_code, 0);
  const json r = results(folder, "c");
  EXPECT_EQ(r["seeds"], json({1, 2, 3}));
  EXPECT_EQ(r["variants"].size(), 4u);
  EXPECT_EQ(r["variants"][3]["spec"], "mla");
  EXPECT_EQ(r["verdict"]["metric"], "loss");
}

TEST(CompareCommand, TakesTheFewestSeedsOfLookupsWithoutIntervals) {
  const TrainFolder folder;
  const ProgramResult result = folder.headcount(
      "compare --steps 2 --attention mha,mqa --intervals off --threads 2 --quiet --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(results(folder, "c")["seeds"], json({1, 2, 3, 4, 5}));
}

TEST(CompareCommand, ClaimsNoFloorWhereStoriesDoNotFitIntoTheContext) {
  const TrainFolder folder;
  const ProgramResult result = compare(
      folder, "--attention mha,mqa --seeds 2 --data tales --dim 2 --heads 1 --steps 1 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("characters do not fit into the context of 16"), std::string::npos);
  EXPECT_EQ(result.out.find("above floor"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("ceiling"), std::string::npos) << result.out;
  EXPECT_TRUE(results(folder, "c")["entropy_per_character"].is_null());
  EXPECT_NE(folder.contents("c/report.html").find("do not fit into the context of 16"),
            std::string::npos);
}

TEST(CompareCommand, DoesNotMixRunsOfOtherSettings) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c").exit_code, 0);
  const std::string result = folder.contents("c/runs/mha/seed-1/result.json");
  const ProgramResult other = compare(folder, "--attention mha --seeds 2 --lr 0.5 --out c");
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_EQ(other.err,
            "headcount: c/runs/mha/seed-1 holds a finished run with lr 0.001, not 0.5; name "
            "another folder with --out, or add --force to train all runs again\n");
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

TEST(CompareCommand, NamesTheFileOfARunThatIsDamaged) {
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
    expect_refusal(compare(folder, flags), 3, {run + c.file + " is damaged", c.why}, c.contents);
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

// As if a program built otherwise, or another machine, had trained the first runs.
TEST(CompareCommand, SaysWhichRunsAnotherBuildOrMachineTrained) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c --quiet").exit_code, 0);
  for (const std::string seed : {"1", "2"}) {
    const std::string file = "c/runs/mha/seed-" + seed + "/run.json";
    json record = json::parse(folder.contents(file));
    record["starts"][0]["version"] = "headcount 0.1.0, Clang 14.0.6, SSE2";
    record["starts"][0]["machine"] = "Pentium III";
    folder.file(file, record.dump());
  }
  const ProgramResult more = compare(folder, "--attention mha,mqa --seeds 3 --out c");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const std::string note =
      "Trained by headcount 0.1.0, Clang 14.0.6, SSE2, on Pentium III; runs side by side: "
      "2, threads of each: 1: mha, seed 1; mha, seed 2. Their training speed does not count.";
  EXPECT_NE(more.out.find(note), std::string::npos) << more.out;
  EXPECT_NE(folder.contents("c/report.html").find(note), std::string::npos);
  const json r = results(folder, "c");
  EXPECT_EQ(r["notes"], json({note}));
  EXPECT_EQ(r["trained_by_others"][0]["runs"], json({"mha, seed 1", "mha, seed 2"}));
  EXPECT_EQ(r["trained_by_others"][0]["version"], "headcount 0.1.0, Clang 14.0.6, SSE2");
  EXPECT_EQ(r["variants"][0]["val_losses"].size(), 3u);
  // None of this program trained mha with two seeds only.
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c --quiet").exit_code, 0);
  EXPECT_TRUE(results(folder, "c")["variants"][0]["train_tokens_per_second"].is_null());
}

TEST(CompareCommand, DoesNotMixSpeedsOfRunsThatSharedTheMachineOtherwise) {
  const TrainFolder folder;
  const std::string flags = "--attention mha --seeds 2 --out c --quiet";
  ASSERT_EQ(compare(folder, flags + " --jobs 1").exit_code, 0);
  EXPECT_EQ(results(folder, "c")["notes"], json::array());
  ASSERT_EQ(compare(folder, flags + " --jobs 1").exit_code, 0);
  EXPECT_EQ(results(folder, "c")["notes"], json::array());
  ASSERT_EQ(compare(folder, flags + " --jobs 2").exit_code, 0);
  EXPECT_EQ(results(folder, "c")["notes"].size(), 1u);
}

TEST(CompareCommand, RecordsInEachRunWhatAskedForItAndWhatTrainedIt) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha --seeds 2 --out c --quiet").exit_code, 0);
  const json record = json::parse(folder.contents("c/runs/mha/seed-1/run.json"));
  EXPECT_EQ(record["starts"][0]["command"], results(folder, "c")["command"]);
  EXPECT_EQ(record["starts"][0]["version"], results(folder, "c")["version"]);
  const std::string machine = record["starts"][0]["machine"];
  EXPECT_TRUE(results(folder, "c")["machine"].get<std::string>().starts_with(machine)) << machine;
}

TEST(CompareCommand, ReportsAFailedRunAndGoesOn) {
  const TrainFolder folder;
  std::filesystem::create_directories(folder / "c/runs/mha");
  folder.file("c/runs/mha/seed-1", "not a folder");
  const ProgramResult result = compare(folder, "--attention mha,mqa --seeds 2 --out c");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("mha, seed 1: "), std::string::npos) << result.out;
  const json r = results(folder, "c");
  EXPECT_EQ(r["variants"][0]["seeds"], json({2}));
  EXPECT_EQ(r["variants"][1]["seeds"], json({1, 2}));
  EXPECT_EQ(folder.contents("c/runs/mha/seed-1"), "not a folder");
}

TEST(CompareCommand, SaysThatRunsDiverged) {
  const TrainFolder folder;
  const ProgramResult result = compare(
      folder, "--attention mha,mqa --seeds 2 --lr 100 --grad-clip 0 --steps 40 --warmup 0 --out c");
  EXPECT_EQ(result.exit_code, 4) << result.out;
  EXPECT_NE(result.out.find("became"), std::string::npos) << result.out;
  EXPECT_TRUE(folder.has("c/report.html"));
}

TEST(CompareCommand, PicksTheBestOfASweepOnTextThatNobodyTrainedOn) {
  const TrainFolder folder;
  std::string text = folder.contents("text.txt");
  folder.file("text.txt", text + text + text);
  // A model learns nothing at a learning rate of zero, so the other value must be chosen.
  const ProgramResult result =
      compare(folder, "--attention mha,mqa --seeds 2 --steps 60 --sweep lr=0,1e-2 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = results(folder, "c");
  for (const json& variant : r["variants"]) {
    EXPECT_EQ(variant["adjusted"], "lr 1e-2");
    const json& swept = variant["sweep"];
    ASSERT_EQ(swept.size(), 2u);
    EXPECT_EQ(swept[0]["value"], "0");
    EXPECT_LT(swept[1]["loss"], swept[0]["loss"]);
    EXPECT_EQ(swept[1]["chosen"], true);
  }
  for (const std::string shown : {"lr 0", "lr 1e-2", "last tenth of the training text",
                                  "mqa has the largest lr of the sweep, 1e-2"}) {
    EXPECT_NE(result.out.find(shown), std::string::npos) << shown << "\n" << result.out;
    EXPECT_NE(folder.contents("c/report.html").find(shown), std::string::npos) << shown;
  }
  const json run = json::parse(folder.contents("c/runs/mha/lr=1e-2/seed-1/result.json"));
  EXPECT_GT(run["tuning_characters"], 0);
  EXPECT_NE(run["tuning_loss"], run["val_loss"]);
  const ProgramResult alone = folder.train("--steps 60 --lr 1e-2 --out alone --json");
  // It has not seen the last tenth of the training text, so it is another model.
  EXPECT_NE(run["val_loss"], json::parse(alone.out)["val_loss"]);
}

TEST(CompareCommand, ShowsHowFarAboveTheFloorEachIsAndItsAnswers) {
  const TrainFolder folder;
  const ProgramResult result =
      compare(folder, "--attention mha,mqa --seeds 2 --data lookup --context 16 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("above floor"), std::string::npos);
  EXPECT_NE(result.out.find("answers right %"), std::string::npos);
  EXPECT_TRUE(results(folder, "c")["variants"][0].contains("answer_accuracy_mean"));
  EXPECT_TRUE(folder.has("c/answers_against_cache.svg"));
}

TEST(CompareCommand, IsPlainWhenNotOnATerminal) {
  const TrainFolder folder;
  const ProgramResult result = compare(folder, "--attention mha,mqa --seeds 2 --out c --json");
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_NE(result.err.find("mha, seed 1: validation loss "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("4 of 4 runs done"), std::string::npos) << result.err;
  EXPECT_EQ(json::parse(result.out), results(folder, "c"));
  EXPECT_EQ(compare(folder, "--attention mha,mqa --seeds 2 --out c2 --quiet").err, "");
}

TEST(CompareCommand, RefusesWhatItCannotDoInOneLine) {
  const struct {
    const char *flags, *message;
  } cases[] = {
      {"--attention mha,nosuch",
       "--attention: 'nosuch' is no attention; known are mha, mqa, gqa or "
       "gqa2"},
      {"--attention mha,mha", "'mha' is in the list twice"},
      {"--seeds 1", "--seeds 1 gives no confidence intervals; give 2 or more, or --intervals off"},
      {"--seeds 0", "--seeds"},
      {"--seeds 5..3",
       "--seeds 5..3 must be a number or a range from 2 or more to a greater number"},
      {"--seeds 1..3", "--seeds 1..3 must be a number or a range"},
      {"--seeds 2..x", "--seeds must be a whole number, is 'x'"},
      {"--seeds 2..4 --intervals off", "--seeds 2..4 adds seeds until intervals decide"},
      {"--attention mha,mqa --reference gqa",
       "--reference 'gqa' is not among the compared attentions"},
      {"--tolerance -1", "--tolerance must be"},
      {"--metric speed", "--metric must be"},
      {"--metric answers", "--metric answers: text.txt marks no answers"},
      {"--attention gqa --match kv=100", "the nearest possible is kv=128"},
      {"--match half", "--match must be none, params or kv=BYTES"},
      {"--sweep lr=1", "--sweep lr has one value"},
      {"--sweep nosuch=1,2", "--sweep cannot vary 'nosuch': there is no such setting"},
      {"--sweep init=a,b",
       "--sweep cannot vary 'init': all models start from random weights; take a setting of the"},
      {"--sweep keep=1,2", "--sweep cannot vary 'keep': it changes no result"},
      {"--sweep checkpoint-every=1,2",
       "--sweep cannot vary 'checkpoint-every': it changes no result"},
      {"--sweep lr=1e-3,0.001", "--sweep lr has one value twice: 1e-3 and 0.001"},
      {"--sweep lr=1e-3,fast", "--lr must be a number, is 'fast'"},
      {"--attention mha,mqa --sweep kv-heads=1,2", "--sweep kv-heads changes nothing for mha"},
      {"--sweep lr=1e-3,1e-2 --lr 0.5",
       "--lr 0.5 changes nothing: --attention mha,gqa,mqa,mla or --sweep sets another lr"},
      {"--attention mha,gqa2 --kv-heads 1", "--kv-heads 1 changes nothing"},
      {"--positions learned --rope-theta 5",
       "--rope-theta has no effect with --positions learned, which rotates nothing"},
      {"--config init.json",
       "--config init.json has init 'run', but a comparison trains all models "
       "from random weights"},
      {"--attention mha,mqa --kv-rank 8", "--kv-rank has no effect with --attention mha,mqa"},
      {"--data text.txt --kinds 3", "--kinds has no effect with --data text.txt"},
      {"--seed 3", "seed"},
      {"--attention gqa3", "--kv-heads 3 does not divide --heads 2"},
  };
  for (const auto& c : cases) {
    const TrainFolder folder;
    folder.file("init.json", "{\"init\": \"run\"}");
    expect_refusal(compare(folder, std::string(c.flags) + " --out c"), 2, {c.message}, c.flags);
    EXPECT_FALSE(folder.has("c")) << c.flags;
  }
}

TEST(CompareCommand, TakesOneSeedWithoutIntervals) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention mha,mqa --seeds 1 --intervals off --out c").exit_code, 0);
  EXPECT_TRUE(results(folder, "c")["variants"][0]["val_loss_ci95"].is_null());
}

}  // namespace
}  // namespace headcount
