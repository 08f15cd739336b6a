// programs: ranks
// label: unsanitized
// headcount started by mpirun: several processes share the work of one, and leave what it leaves.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "train/compare/comparison_folder.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// More ranks than processors, as root, in containers: what users do not need. MPI never frees some
// of its memory, in modules that are gone when leaks are looked for; ours are found by other tests.
const std::string kEnvironment =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 "
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
    "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none "
    "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; ";

std::string mpirun(int ranks) {
  return kEnvironment + "exec '" HEADCOUNT_MPIRUN "' -n " + std::to_string(ranks) + " ";
}

// Runs a line by some ranks, or, with 0, by one process without mpirun.
ProgramResult headcount(const TrainFolder& folder, int ranks, const std::string& line) {
  if (ranks == 0) return folder.headcount(line);
  return folder.shell(mpirun(ranks) + "headcount " + line);
}
ProgramResult done(const TrainFolder& folder, int ranks, const std::string& line) {
  ProgramResult result = headcount(folder, ranks, line);
  EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
  return result;
}

// 4 shards of a batch, with dropout, for three chunks of gradients; 7 windows to evaluate.
std::string train_line(const std::string& flags) {
  return TrainFolder::train_line(
      over_defaults("--batch 8 --context 16 --shards 4 --layers 2 --dim 64 --dropout 0.1 --steps 6 "
                    "--eval-every 3 --checkpoint-every 3 --keep 9 --attention gqa --kv-heads 1 ",
                    flags));
}

// reducer_test.cpp holds other optimizers, shards and precisions by threads.
TEST(Ranks, TrainTheBitsOfOneProcess) {
  const TrainFolder folder;
  const auto line = [](const std::string& run, int threads) {
    return train_line("--format json --batch 9 --shards 2 --accumulate 3 --out " + run +
                      " --threads " + std::to_string(threads));
  };
  const json alone = json::parse(done(folder, 0, line("alone", 2)).out);
  for (const auto& [ranks, threads] : {std::pair(1, 1), {2, 1}, {3, 2}}) {
    const std::string run = "ranks" + std::to_string(ranks);
    const ProgramResult together = done(folder, ranks, line(run, threads));
    EXPECT_EQ(json::parse(together.out)["val_loss"], alone["val_loss"]) << "one object";
    folder.expect_same_run(run, "alone", 6);
    const std::string first = "gqa1: ";  // what the run takes, which one rank says
    expect_parts(together.err, {first});
    EXPECT_EQ(together.err.find(first), together.err.rfind(first)) << together.err;
    if (ranks == 3)
      expect_parts(together.err,
                   {"3 ranks share the 2 shards of a batch: 1 of them only help to evaluate; "
                    "a new run with --shards 3 would use them\n"});
  }
}

// A rank of some that gets a signal in its step `step`.
std::string with_signal(int ranks, int rank, int step, int signal, const std::string& line) {
  return kEnvironment + "'" HEADCOUNT_MPIRUN "' -n " + std::to_string(ranks) +
         " sh -c 'if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = " + std::to_string(rank) +
         " ]; then export HEADCOUNT_STOP_AT=" + TrainFolder::stop_at(step, signal) +
         "; fi; exec \"$0\" \"$@\"' headcount " + line;
}

// A kill takes all down, as MPI does; a signal to one stops all. What goes on is another number of
// ranks.
TEST(Ranks, GoOnAfterAKillOrASignalWithAnotherNumber) {
  const TrainFolder folder;
  const std::string line =
      train_line("--steps 20 --eval-every 0 --checkpoint-every 5 --keep 1 --quiet --out ");
  done(folder, 0, line + "alone");
  for (const auto& [signal, ranks, saved] : {std::tuple(SIGKILL, 2, 10), {SIGTERM, 0, 13}}) {
    std::filesystem::remove_all(folder / "run");
    const ProgramResult stopped = folder.shell(with_signal(3, 2, 13, signal, line + "run"));
    ASSERT_TRUE(folder.has("run/checkpoints/step-" + std::to_string(saved)));
    EXPECT_NE(stopped.exit_code, 0);
    if (signal == SIGTERM) {
      EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped.err;
      expect_parts(stopped.err, {"headcount: stopped after step 13;",
                                 "resume with headcount train --resume run\n"});
    }
    done(folder, ranks, "train --resume run --threads 1 --quiet");
    folder.expect_same_run("run", "alone", 20);
  }
}

TEST(Ranks, EvaluateToTheBitsOfOneProcess) {
  const TrainFolder folder;
  done(folder, 0, train_line("--quiet --out run"));
  const std::string line = "eval --from run --attention-stats --cache-dtype int8 --format json";
  EXPECT_EQ(done(folder, 3, line).out, done(folder, 0, line).out);
}

// Processes of a comparison use no MPI: each takes runs, and the first one prints the results.
TEST(Ranks, CompareToTheResultsOfOneProcess) {
  const std::string line = TrainFolder::compare_line(
      "--steps 400 --lr 1e-2 --attention mha,gqa1,mla --tolerance 0.02 --seeds 2..4 --out c");
  const TrainFolder folder, whole;
  whole.done(line);
  const ProgramResult three = done(folder, 3, line);
  EXPECT_EQ(three.err, "");
  EXPECT_EQ(three.out.find("\nreport "), three.out.rfind("\nreport ")) << three.out;
  EXPECT_EQ(without_timing(folder.contents("c/results.json")).dump(),
            without_timing(whole.contents("c/results.json")).dump());
}

TEST(Ranks, RefuseWhatTheyCannotShare) {
  const TrainFolder folder;
  // Only rank 0 looks into the run's folder.
  std::filesystem::create_directories(folder / "full");
  folder.file("full/mine", "");
  for (const auto& [line, said] :
       {std::pair<std::string, const char*>{
            "cost", "headcount: headcount cost runs in one process; start it without mpirun\n"},
        {"train --layers none",
         "--layers must be a whole number, such as 12 or 4k (4096), is 'none'"},
        {train_line("--out full"), "--out full is not empty and holds no run"}}) {
    const ProgramResult result = headcount(folder, 2, line);
    EXPECT_EQ(result.exit_code, kUsage);
    EXPECT_EQ(result.out, "");
    expect_parts(result.err, {said});
    EXPECT_EQ(result.err.find(said), result.err.rfind(said)) << "said once\n" << result.err;
  }
}

}  // namespace
}  // namespace headcount
