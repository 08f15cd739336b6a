// label: unsanitized
// Processes that know nothing of each other share the runs of a comparison by their folders.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/without_timing.h"
#include "train/run_program.h"

namespace headcount {
namespace {

const std::string kShared =
    "compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --threads 1 "
    "--jobs 1 --attention mha,gqa1,mla --quiet --out c ";

std::string results(const TrainFolder& folder) {
  return without_timing(folder.contents("c/results.json")).dump();
}

// Starts of the program that trained a run of the folder c.
nlohmann::json starts(const TrainFolder& folder, const std::string& run) {
  return nlohmann::json::parse(folder.contents("c/runs/" + run + "/run.json"))["starts"];
}

TEST(ProcessesOfAComparison, GiveTheResultsOfOneWhenOneIsKilledAndOneJoinsLate) {
  const std::string line =
      kShared + "--seeds 2..4 --tolerance 0 --steps 400 --lr 1e-2 --checkpoint-every 100 ";
  const TrainFolder folder, whole;
  const pid_t killed = folder.halted(line, 150), halted = folder.halted(line, 150);
  // This one trains all runs but two, and waits for those.
  const pid_t through = folder.start(line, "", "through.");
  kill(killed, SIGKILL);
  EXPECT_EQ(exit_code_of(killed), 128 + SIGKILL);
  kill(halted, SIGCONT);
  const pid_t late = folder.start(line, "", "late.");
  for (const pid_t process : {through, halted, late}) EXPECT_EQ(exit_code_of(process), 0);
  const ProgramResult one = whole.headcount(line);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(results(folder), results(whole));
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
  const std::string line = kShared + "--seeds 2 --lr 100 --grad-clip 0 --steps 40 --warmup 0 ";
  const TrainFolder folder, whole;
  const pid_t halted = folder.halted(line, 1), other = folder.start(line, "", "other.");
  kill(halted, SIGCONT);
  for (const pid_t process : {halted, other}) EXPECT_EQ(exit_code_of(process), 4);
  const ProgramResult again = folder.headcount(line);
  EXPECT_EQ(again.exit_code, 4) << again.err;
  EXPECT_NE(again.out.find("became"), std::string::npos) << again.out;
  for (const std::string run : {"mha/seed-1", "gqa1/seed-2", "mla/seed-1"})
    EXPECT_EQ(starts(folder, run).size(), 1u) << "it would diverge again";
  EXPECT_EQ(whole.headcount(line).exit_code, 4);
  EXPECT_EQ(results(folder), results(whole));
  // Failures are those of the settings.
  EXPECT_EQ(folder.headcount(line + "--dropout 0.1").exit_code, 4);
  EXPECT_EQ(nlohmann::json::parse(folder.contents("c/runs/mha/seed-1/config.json"))["dropout"],
            0.1);
}

TEST(ProcessesOfAComparison, TryAgainWhatFailedForAnotherReason) {
  const std::string line = kShared + "--seeds 2 --steps 3 ";
  const TrainFolder folder;
  std::filesystem::create_directories(folder / "c/runs/mla");
  folder.file("c/runs/mla/seed-2", "not a folder");
  const ProgramResult failed = folder.headcount(line);
  EXPECT_EQ(failed.exit_code, kRuntime);
  EXPECT_NE(failed.out.find("mla, seed 2: "), std::string::npos) << failed.out;
  std::filesystem::remove(folder / "c/runs/mla/seed-2");
  std::filesystem::create_directories(folder / "c/runs/mla/seed-2");
  folder.file("c/runs/mla/seed-2/thesis.txt", "precious");
  EXPECT_EQ(folder.headcount(line).exit_code, kRuntime);
  EXPECT_TRUE(folder.has("c/runs/mla/seed-2/failed.json"));
  std::filesystem::remove(folder / "c/runs/mla/seed-2/thesis.txt");
  EXPECT_EQ(folder.headcount(line).exit_code, 0);
  EXPECT_FALSE(folder.has("c/runs/mla/seed-2/failed.json"));
}

TEST(ProcessesOfAComparison, AreWhatAnArrayOfSlurmStarts) {
  const TrainFolder folder;
  std::string flags = kShared + "--seeds 2 --steps 2";
  flags.erase(flags.find("--threads 1 "), std::string("--threads 1 ").size());
  for (const std::string task : {"4", "5"}) {
    const ProgramResult result = folder.shell(
        "HEADCOUNT=headcount SLURM_ARRAY_TASK_ID=" + task +
        " SLURM_NTASKS=1 bash '" HEADCOUNT_FIXTURE_FOLDER "/../../train/cluster.sbatch' " + flags);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(folder.has("c/results.json"));
}

}  // namespace
}  // namespace headcount
