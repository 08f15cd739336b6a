// programs: ranks
// label: unsanitized
// headcount started by mpirun: several processes share the work of one, and leave what it leaves.
#include "train/ranks.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "autograd/products.h"
#include "train/compare/without_timing.h"
#include "train/gradient_exchange.h"
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

ProgramResult headcount(const TrainFolder& folder, int ranks, const std::string& line) {
  if (ranks == 0) return folder.headcount(line);
  return folder.shell(mpirun(ranks) + "\"$headcount\" " + line);
}

// 4 shards of a batch, with dropout, for three chunks of gradients; 7 windows to evaluate.
std::string train_line(const std::string& flags) {
  return TrainFolder::train_line(
      over_defaults("--batch 8 --context 16 --shards 4 --layers 2 --dim 64 --dropout 0.1 --steps 6 "
                    "--eval-every 3 --checkpoint-every 3 --keep 9 --attention gqa --kv-heads 1 ",
                    flags));
}

// What a run leaves, but for the record of what started it.
void expect_same_run(const TrainFolder& folder, const std::string& run, const std::string& other,
                     const std::string& what) {
  for (const char* file :
       {"metrics.jsonl", "config.json", "checkpoints/latest",
        "checkpoints/step-3/model.safetensors", "checkpoints/step-6/model.safetensors",
        "checkpoints/step-6/optimizer.safetensors", "samples/step-6.txt"}) {
    ASSERT_TRUE(folder.has(run + "/" + file)) << file;
    EXPECT_EQ(folder.contents(run + "/" + file), folder.contents(other + "/" + file))
        << file << ", " << what;
  }
}

TEST(Ranks, ShareThingsInTheirOrder) {
  for (const int size : {1, 2, 3, 7}) {
    for (const Index count : {0, 1, 3, 8}) {
      Index next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Part part = part_of(count, rank, size);
        EXPECT_EQ(part.first, next);
        EXPECT_LE(part.size(), part_of(count, 0, size).size());
        EXPECT_GE(part.size() + 1, part_of(count, 0, size).size());
        next = part.last;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Ranks, TrainTheBitsOfOneProcess) {
  const TrainFolder folder;
  const ProgramResult alone =
      headcount(folder, 0, train_line("--out alone --threads 2 --format json --quiet"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const json result = json::parse(alone.out);
  ASSERT_GT(result["params"], 2 * GradientExchange::kChunk) << "more than one chunk";
  for (const auto& [ranks, threads] : {std::pair(1, 1), {2, 1}, {3, 2}, {4, 1}}) {
    const std::string run = "ranks" + std::to_string(ranks);
    const ProgramResult together = headcount(
        folder, ranks,
        train_line("--format json --quiet --out " + run + " --threads " + std::to_string(threads)));
    ASSERT_EQ(together.exit_code, 0) << together.err;
    EXPECT_EQ(together.err, "") << "only the result is said, and once";
    expect_same_run(folder, run, "alone", run);
    EXPECT_EQ(json::parse(together.out)["val_loss"], result["val_loss"]);
  }
}

// Runs of one, two and three processes, with these flags.
void expect_same_runs(const std::string& flags) {
  const TrainFolder folder;
  for (const int ranks : {0, 2, 3}) {
    const std::string run = "ranks" + std::to_string(ranks);
    const ProgramResult result =
        headcount(folder, ranks, train_line(flags + " --quiet --threads 1 --out " + run));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    if (ranks > 0) expect_same_run(folder, run, "ranks0", run);
  }
}

TEST(Ranks, TrainByMuonTheBitsOfOneProcess) { expect_same_runs("--optimizer muon"); }

TEST(Ranks, TrainInBf16TheBitsOfOneProcess) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  expect_same_runs("--precision bf16");
}

// A process cuts the products of its ops where it has one task only. The task of a rank may be one
// of several: it is not cut then, which would add its numbers up in another order.
TEST(Ranks, OfOneShardEachTrainTheBitsOfOneProcess) {
  const TrainFolder folder;
  std::string text;
  std::minstd_rand generator;
  for (int i = 0; i < 20000; ++i) text += "abcdefghijk\n "[generator() % 13];
  folder.file("random.txt", text);
  for (const std::string attention : {"mla", "delta"}) {
    const std::string line = TrainFolder::train_line(
        "--data random.txt --dim 64 --heads 4 --context 64 --batch 16 --shards 2 --steps 2 "
        "--eval-every 0 --checkpoint-every 0 --quiet --attention " +
        attention);
    for (const int ranks : {0, 2}) {
      const ProgramResult result =
          headcount(folder, ranks, line + " --out " + attention + std::to_string(ranks));
      ASSERT_EQ(result.exit_code, 0) << result.err;
    }
    EXPECT_EQ(folder.weights(attention + "0", 2), folder.weights(attention + "2", 2)) << attention;
  }
}

TEST(Ranks, AccumulateAndSaySoWhenTheyAreTooMany) {
  const TrainFolder folder;
  const std::string flags = "--batch 9 --shards 2 --accumulate 3 ";
  ASSERT_EQ(headcount(folder, 0, train_line(flags + "--out alone")).exit_code, 0);
  const ProgramResult three = headcount(folder, 3, train_line(flags + "--out three"));
  ASSERT_EQ(three.exit_code, 0) << three.err;
  expect_same_run(folder, "three", "alone", "3 ranks");
  EXPECT_NE(
      three.err.find("3 ranks share the 2 shards of a batch: 1 of them only help to evaluate; "
                     "a new run with --shards 3 would use them\n"),
      std::string::npos)
      << three.err;
}

// A rank of some that gets a signal in its step `step`.
std::string with_signal(int ranks, int rank, int step, int signal, const std::string& line) {
  return kEnvironment + "'" HEADCOUNT_MPIRUN "' -n " + std::to_string(ranks) +
         " sh -c 'if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = " + std::to_string(rank) +
         " ]; then export HEADCOUNT_STOP_AT=" + TrainFolder::stop_at(step, signal) +
         "; fi; exec \"$0\" \"$@\"' \"$headcount\" " + line;
}

void expect_same_end(const TrainFolder& folder, int step) {
  const std::string last = "/checkpoints/step-" + std::to_string(step) + "/";
  for (const std::string file : {"/metrics.jsonl", "/checkpoints/latest"})
    EXPECT_EQ(folder.contents("run" + file), folder.contents("alone" + file)) << file;
  for (const std::string file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(folder.contents("run" + last + file), folder.contents("alone" + last + file)) << file;
}

// A kill takes all down, as MPI does; what goes on is another number of ranks.
TEST(Ranks, GoOnAfterAKillWithAnotherNumber) {
  const TrainFolder folder;
  const std::string steps = "--steps 20 --eval-every 0 --checkpoint-every 5 --keep 1 --quiet ";
  ASSERT_EQ(headcount(folder, 0, train_line(steps + "--out alone")).exit_code, 0);
  const ProgramResult killed =
      folder.shell(with_signal(2, 1, 13, SIGKILL, train_line(steps + "--out run")));
  EXPECT_NE(killed.exit_code, 0);
  ASSERT_TRUE(folder.has("run/checkpoints/step-10"));
  const ProgramResult resumed = headcount(folder, 3, "train --resume run --threads 1 --quiet");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  expect_same_end(folder, 20);
}

TEST(Ranks, StopTogetherAtASignalAndAreResumedByOneProcess) {
  const TrainFolder folder;
  const std::string steps = "--steps 20 --eval-every 0 --checkpoint-every 0 --quiet ";
  ASSERT_EQ(headcount(folder, 0, train_line(steps + "--out alone")).exit_code, 0);
  const ProgramResult stopped =
      folder.shell(with_signal(3, 2, 7, SIGTERM, train_line(steps + "--out run")));
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped.err;
  EXPECT_NE(stopped.err.find("headcount: stopped after step 7;"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("resume with headcount train --resume run\n"), std::string::npos)
      << stopped.err;
  ASSERT_EQ(headcount(folder, 0, "train --resume run --threads 1 --quiet").exit_code, 0);
  expect_same_end(folder, 20);
}

TEST(Ranks, EvaluateToTheBitsOfOneProcess) {
  const TrainFolder folder;
  ASSERT_EQ(headcount(folder, 0, train_line("--out run")).exit_code, 0);
  const std::string line = "eval --from run --attention-stats --cache-dtype int8 --format json";
  const ProgramResult alone = headcount(folder, 0, line), three = headcount(folder, 3, line);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  ASSERT_EQ(three.exit_code, 0) << three.err;
  EXPECT_EQ(three.out, alone.out);
}

// Processes of a comparison use no MPI: each takes runs, and the first one prints the results.
TEST(Ranks, CompareToTheResultsOfOneProcess) {
  const std::string line =
      "compare --data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 400 "
      "--lr 1e-2 --threads 1 --attention mha,gqa1,mla --tolerance 0.02 --seeds 2..4 --quiet "
      "--out c";
  const TrainFolder folder, whole;
  const ProgramResult three = headcount(folder, 3, line), one = whole.headcount(line);
  ASSERT_EQ(three.exit_code, 0) << three.err;
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(three.err, "");
  EXPECT_EQ(three.out.find("\nreport "), three.out.rfind("\nreport ")) << three.out;
  EXPECT_EQ(without_timing(folder.contents("c/results.json")).dump(),
            without_timing(whole.contents("c/results.json")).dump());
}

TEST(Ranks, RefuseWhatTheyCannotShare) {
  const TrainFolder folder;
  const auto says = [&](const ProgramResult& result, const std::string& text) {
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(text), result.err.rfind(text)) << "said once\n" << result.err;
    EXPECT_EQ(result.out, "");
  };
  const ProgramResult cost = headcount(folder, 2, "cost");
  EXPECT_EQ(cost.exit_code, 2);
  says(cost, "headcount: headcount cost runs in one process; start it without mpirun\n");
  const ProgramResult flag = headcount(folder, 2, "train --layers none");
  EXPECT_EQ(flag.exit_code, 2);
  says(flag, "--layers must be a whole number, is 'none'");
  // Only rank 0 looks into the run's folder.
  std::filesystem::create_directories(folder / "full");
  folder.file("full/mine", "");
  const ProgramResult full = headcount(folder, 2, train_line("--out full"));
  EXPECT_EQ(full.exit_code, 2);
  says(full, "--out full is not empty and holds no run");
}

}  // namespace
}  // namespace headcount
