// label: unsanitized
// compare --shard and --collect: a comparison by processes that know nothing of each other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/compare.h"
#include "train/compare/without_timing.h"
#include "train/run_program.h"

namespace headcount {
namespace {

const std::string kShardArguments =
    "compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --threads 1 "
    "--attention mha,gqa1,mla --quiet --out c ";

nlohmann::ordered_json results(const TrainFolder& folder) {
  return without_timing(folder.contents("c/results.json"));
}

// Results of the command line `line` run whole by one process, in a folder of its own.
std::string results_of_one_process(const std::string& line, int exit_code = 0) {
  const TrainFolder folder;
  EXPECT_EQ(folder.headcount(line).exit_code, exit_code);
  return results(folder).dump();
}

TEST(Shard, IsOneOfSome) {
  EXPECT_EQ(Shard::parse("2/8").number, 2);
  EXPECT_EQ(Shard::parse("2/8").count, 8);
  for (const char* text : {"", "2", "2/", "/8", "0/8", "9/8", "-1/2", "2/8x", "2 / 8"})
    EXPECT_THROW(Shard::parse(text), SettingError) << text;
}

TEST(Shards, CollectedAreTheResultsOfOneProcess) {
  const std::string line = kShardArguments + "--seeds 3 --steps 5";
  const TrainFolder folder;
  for (const std::string shard : {"3/3", "1/3", "2/3"}) {
    const ProgramResult result = folder.headcount(line + " --shard " + shard);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("shard " + shard + " has ended"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find(line + " --collect\n"), std::string::npos) << result.out;
    EXPECT_FALSE(folder.has("c/results.json"));
  }
  const ProgramResult again = folder.headcount(line + " --shard 1/3 --force");
  EXPECT_NE(again.out.find(line + " --collect\n"), std::string::npos) << again.out;
  const ProgramResult collected = folder.headcount(line + " --collect");
  ASSERT_EQ(collected.exit_code, 0) << collected.err;
  EXPECT_EQ(results(folder).dump(), results_of_one_process(line));
  EXPECT_TRUE(folder.has("c/report.html"));
  EXPECT_FALSE(folder.has("c/.headcount-lock"));
  expect_refusal(
      folder.headcount(kShardArguments + "--seeds 3 --steps 6 --collect"), 3,
      {"holds a finished run with steps 5, not 6; give --collect the flags of the shards"},
      "other flags");
}

TEST(Shards, OfABatchAreNoShardsOfAComparison) {
  const TrainFolder folder;
  const std::string line = kShardArguments + "--seeds 2 --steps 1 --shards 2";
  const ProgramResult result = folder.headcount(line + " --shard 1/2");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(line + " --collect\n"), std::string::npos) << result.out;
}

TEST(Shards, HaveAsManyRunsAsEachOther) {
  std::string line = kShardArguments + "--seeds 2 --steps 2 --shard 2/3";
  line.erase(line.find("--quiet "), 8);
  const TrainFolder folder;
  const ProgramResult result = folder.headcount(line);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("(2 of 2 runs done)"), std::string::npos) << result.err;
  int finished = 0;
  for (const std::string attention : {"mha", "gqa1", "mla"}) {
    for (const std::string seed : {"1", "2"})
      finished += folder.has("c/runs/" + attention + "/seed-" + seed + "/result.json");
  }
  EXPECT_EQ(finished, 2) << "of 6, for one of 3 shards";
  const ProgramResult early = folder.headcount(kShardArguments + "--seeds 2 --steps 2 --collect");
  expect_refusal(early, 1,
                 {"--collect: 4 of 6 runs have no result, the first is ",
                  "; run every --shard (again), then collect again"},
                 "collect");
}

TEST(Shards, AreStartedAgainForTheSeedsThatAnOpenVerdictNeeds) {
  const std::string line = kShardArguments + "--seeds 2..4 --tolerance 0 --steps 400 --lr 1e-2";
  const TrainFolder folder;
  const auto collect = [&] { return folder.headcount(line + " --collect"); };
  int rounds = 0;
  do {
    ASSERT_LT(++rounds, 4);
    for (const std::string shard : {"1/2", "2/2"})
      ASSERT_EQ(folder.headcount(line + " --shard " + shard).exit_code, 0);
  } while (collect().exit_code != 0);
  EXPECT_GT(rounds, 1);
  EXPECT_EQ(results(folder).dump(), results_of_one_process(line));
}

TEST(Shards, TellWhoCollectsThatRunsDiverged) {
  const std::string line =
      kShardArguments + "--seeds 2 --lr 100 --grad-clip 0 --steps 40 --warmup 0";
  const TrainFolder folder;
  for (const std::string shard : {"1/2", "2/2"})
    EXPECT_EQ(folder.headcount(line + " --shard " + shard).exit_code, 4) << shard;
  const ProgramResult collected = folder.headcount(line + " --collect");
  EXPECT_EQ(collected.exit_code, 4) << collected.err;
  EXPECT_NE(collected.out.find("became"), std::string::npos) << collected.out;
  EXPECT_EQ(results(folder).dump(), results_of_one_process(line, 4));
  // Failures are those of the settings: runs with another dropout have not failed.
  expect_refusal(folder.headcount(line + " --dropout 0.1 --collect"), 1,
                 {"6 of 6 runs have no result"}, "another dropout");
}

// While one works, others may come, but nobody who wants the folder alone.
TEST(Shards, AreInAFolderTogether) {
  const TrainFolder folder;
  const std::string line = kShardArguments + "--seeds 2 --steps 20 ";
  const pid_t first = folder.halted(line + "--shard 1/6", 2);
  const ProgramResult other = folder.headcount(kShardArguments + "--seeds 2 --steps 2 --shard 6/6");
  EXPECT_EQ(other.exit_code, 0) << other.err;
  expect_refusal(folder.headcount(line), 1, {"c is in use by "}, "a whole comparison");
  kill(first, SIGKILL);
  exit_code_of(first);
}

// Started twice: the run is the first one's, and the second does not call it failed.
TEST(Shards, LeaveARunToThePossessorOfItsFolder) {
  const TrainFolder folder;
  const std::string line = kShardArguments + "--seeds 2 --steps 20 --shard 1/1";
  const std::string run = "c/runs/mha/seed-1/";
  const pid_t first = folder.halted(line, 2);
  std::string one = line;
  one.replace(one.find("mha,gqa1,mla"), std::string("mha,gqa1,mla").size(), "mha");
  one.replace(one.find("--seeds 2"), std::string("--seeds 2").size(), "--seeds 1 --intervals off");
  const ProgramResult second = folder.headcount(one);
  EXPECT_EQ(second.exit_code, 1) << second.err;
  EXPECT_TRUE(second.out.starts_with("shard 1/1 has ended, 1 of its runs without a result;"))
      << second.out;
  EXPECT_FALSE(folder.has(run + "failed.json"));
  kill(first, SIGKILL);
  exit_code_of(first);
}

TEST(Shards, AreWhatAnArrayOfSlurmStarts) {
  const TrainFolder folder;
  const std::string line = kShardArguments + "--seeds 2 --steps 2";
  std::string flags = line;
  flags.erase(flags.find("--threads 1 "), std::string("--threads 1 ").size());
  for (const std::string task : {"4", "5"}) {
    const ProgramResult result = folder.shell(
        "HEADCOUNT=$headcount SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_COUNT=2 "
        "SLURM_ARRAY_TASK_ID=" +
        task + " bash '" HEADCOUNT_FIXTURE_FOLDER "/../../train/cluster.sbatch' " + flags);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(folder.headcount(line + " --collect").exit_code, 0);
}

TEST(Shards, RefuseWhatDoesNotGoTogether) {
  const TrainFolder folder;
  const struct {
    const char *flags, *message;
  } cases[] = {
      {"--shard 3/2", "--shard must be I/N with I from 1 to N, for example 2/8; it is '3/2'"},
      {"--shard 1/2 --collect", "--shard does not go with --collect"},
      {"--shard 1/2 --json", "--shard does not go with --json"},
      {"--collect --force", "--collect does not go with --force"},
      {"--collect", "--out c is not there: nothing to collect"},
  };
  for (const auto& c : cases)
    expect_refusal(folder.headcount(kShardArguments + c.flags), 2, {c.message}, c.flags);
  EXPECT_FALSE(folder.has("c"));
}

}  // namespace
}  // namespace headcount
