// What the program says to input that it cannot use: exit code, one line that names the flag or
// the file, nothing on standard output, nothing written.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class BadInput : public testing::Test {
 protected:
  BadInput() {
    const std::string text = folder_.contents("text.txt");
    folder_.file("empty.txt", "");
    folder_.file("binary.txt", text + std::string("\0\1\2", 3));
    folder_.file("latin1.txt", "caf\xe9 au lait");
    folder_.file("truncated.txt", text + "\xe2\x82");
    folder_.file("one.txt", std::string(500, 'a'));
    folder_.file("tiny.txt", "ab");
    folder_.file("bad.json", "{\"steps\": 3");
    folder_.file("list.json", "[1, 2]");
    folder_.file("unknown.json", "{\"colour\": \"red\"}");
    folder_.file("range.json", "{\"steps\": 0}");
    folder_.file("type.json", "{\"steps\": [3]}");
    fs::create_directory(folder_ / "folder");
    fs::create_directory(folder_ / "full");
    folder_.file("full/metrics.jsonl", "mine");
  }

  // Exit code `code` and one line on standard error that has all of `names`, words apart.

  struct Refusal {
    std::string flags;
    std::vector<std::string> names;  // what the line must name
  };
  void expect_refusals(int code, const std::vector<Refusal>& all) const {
    for (const auto& [flags, names] : all) {
      expect_refusal(folder_.train("--out run " + flags), code, names, flags);
      EXPECT_FALSE(folder_.has("run")) << flags;
    }
  }

  TrainFolder folder_;
};

TEST_F(BadInput, UnknownCommandListsTheCommands) {
  expect_refusal(folder_.headcount("tarin"), kUsage, {"'tarin'", "train"}, "tarin");
  expect_refusal(folder_.headcount("--train"), kUsage, {"'--train'", "train"}, "--train");
}

TEST_F(BadInput, NoCommandPrintsHelpOnStandardError) {
  const ProgramResult result = folder_.headcount("");
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("train"), std::string::npos);
}

TEST_F(BadInput, UnknownFlags) {
  expect_refusals(kUsage, {{"--colour red", {"--colour"}},
                           {"--step 3", {"unknown flag --step;"}},
                           {"-n 3", {"unknown flag -n;"}},
                           {"stray", {"'stray'"}},
                           {"--steps", {"steps"}},
                           {"--out", {"out"}}});
}

TEST_F(BadInput, NumbersOutOfRange) {
  expect_refusals(kUsage, {{"--steps 0", {"--steps", "between 1 and", "0"}},
                           {"--steps -1", {"--steps", "-1"}},
                           {"--batch 0", {"--batch"}},
                           {"--layers 0", {"--layers"}},
                           {"--context 0", {"--context"}},
                           {"--accumulate 0", {"--accumulate"}},
                           {"--warmup -1", {"--warmup"}},
                           {"--eval-every -1", {"--eval-every"}},
                           {"--threads -1", {"--threads"}},
                           {"--threads 5000", {"--threads"}},
                           {"--dropout 1", {"--dropout", "below 1"}},
                           {"--dropout -0.1", {"--dropout"}},
                           {"--beta1 1", {"--beta1"}},
                           {"--lr -0.001", {"--lr"}},
                           {"--grad-clip -1", {"--grad-clip"}},
                           {"--seed -1", {"--seed"}}});
}

TEST_F(BadInput, WhatIsNotANumber) {
  expect_refusals(kUsage, {{"--steps many", {"--steps", "'many'"}},
                           {"--steps 1.5", {"--steps", "'1.5'"}},
                           {"--steps=", {"--steps"}},
                           {"--heads 0x2", {"--heads", "'0x2'"}},
                           {"--lr fast", {"--lr", "'fast'"}},
                           {"--lr nan", {"--lr", "'nan'"}},
                           {"--dropout 0,1", {"--dropout", "'0,1'"}},
                           {"--seed first", {"--seed", "'first'"}},
                           {"--score-scale big", {"--score-scale", "'big'"}}});
}

TEST_F(BadInput, NumbersTooLargeForTheirType) {
  expect_refusals(kUsage, {{"--steps 99999999999999999999", {"--steps", "99999999999999999999"}},
                           {"--steps 4294967297", {"--steps", "4294967297"}},
                           {"--context 18446744073709551617", {"--context"}},
                           {"--seed 18446744073709551616", {"--seed"}},
                           {"--lr 1e999", {"--lr", "1e999"}},
                           {"--grad-clip inf", {"--grad-clip", "inf"}}});
}

TEST_F(BadInput, ChoicesThatDoNotExist) {
  expect_refusals(kUsage,
                  {{"--attention nosuch",
                    {"--attention", "mha, mqa, gqa or gqa2", "mla or mla48+16", "'nosuch'"}},
                   {"--positions absolute", {"--positions", "rope, learned, none"}},
                   {"--norm batch", {"--norm", "rms, layer"}},
                   {"--activation relu", {"--activation", "swiglu, gelu"}},
                   {"--progress sometimes", {"--progress", "auto, always, never"}},
                   {"--bias=perhaps", {"--bias", "on, off"}},
                   {"--attention mla --latent-norm maybe", {"--latent-norm", "on, off"}},
                   {"--preset nanogpt", {"--preset", "nanogpt-cpu", "nanogpt-gpu", "'nanogpt'"}}});
}

TEST_F(BadInput, ImpossibleShapes) {
  expect_refusals(kUsage,
                  {{"--heads 3", {"--heads 3", "--dim 16"}},
                   {"--attention gqa --heads 4 --kv-heads 3", {"--kv-heads 3", "--heads 4"}},
                   {"--attention gqa --heads 4 --kv-heads 8", {"--kv-heads 8", "--heads 4"}},
                   {"--attention gqa --heads 1", {"--heads", "--kv-heads"}},
                   {"--heads 16", {"--positions rope", "--head-dim, which is 1"}},
                   {"--head-dim 5", {"--head-dim, which is 5"}},
                   {"--attention mla --rope-dim 3", {"--rope-dim", "even", "3"}}});
}

TEST_F(BadInput, FlagsOfAnotherAttention) {
  for (const char* const attention : {"mha", "mqa", "gqa", "latent-bias"}) {
    for (const char* const flag :
         {"kv-rank 8", "q-rank 8", "nope-dim 8", "latents 2", "v-dim 8", "latent-norm off"}) {
      const std::string name = std::string("--") + flag;
      expect_refusals(
          kUsage,
          {{std::string("--attention ") + attention + " " + name,
            {name.substr(0, name.find(' ')), std::string("--attention ") + attention, "mla"}}});
    }
  }
  expect_refusals(
      kUsage, {{"--attention mqa --kv-heads 2", {"--kv-heads", "--attention mqa", "gqa"}},
               {"--attention mla --kv-heads 2", {"--kv-heads", "--attention mla", "gqa"}},
               {"--attention latent-bias --rope-dim 8", {"--rope-dim", "mla"}},
               {"--attention gta --tie-kv on", {"--tie-kv", "--attention gta", "mha, mqa, gqa"}},
               {"--attention mla --kv-factors 2", {"--kv-factors", "tpa"}},
               {"--attention gqa --latent-dim 2", {"--latent-dim", "latent-bias"}}});
}

TEST_F(BadInput, FlagsOfOtherData) {
  expect_refusals(kUsage, {{"--data tales --kinds 2", {"--kinds", "--data tales", "lookup"}},
                           {"--data lookup --pairs 2", {"--pairs", "--data lookup", "mqar"}},
                           {"--kinds 2", {"--kinds", "--data text.txt", "lookup"}}});
}

TEST_F(BadInput, FlagsThatContradictEachOther) {
  expect_refusals(kUsage, {{"--lr 0.1 --min-lr 1", {"--min-lr", "--lr"}},
                           {"--data lookup --context 100", {"--context", "16", "lookup"}},
                           {"--data mqar --pairs 17", {"--line-length", "--pairs", "68", "64"}}});
}

TEST_F(BadInput, UnusableTexts) {
  const std::size_t size = folder_.contents("text.txt").size();
  const std::string offset = "offset " + std::to_string(size);
  expect_refusals(kData, {{"--data missing.txt", {"'missing.txt'"}},
                          {"--data empty.txt", {"'empty.txt'", "empty"}},
                          {"--data binary.txt", {"'binary.txt'", "binary", offset}},
                          {"--data latin1.txt", {"'latin1.txt'", "UTF-8", "offset 3"}},
                          {"--data truncated.txt", {"'truncated.txt'", "UTF-8", offset}},
                          {"--data one.txt", {"'one.txt'", "one symbol"}},
                          {"--data folder", {"'folder'", "folder"}},
                          {"--data text.txt/part", {"'text.txt/part'"}}});
}

TEST_F(BadInput, ContextsLongerThanTheText) {
  expect_refusals(kData, {{"--context 5000", {"--context 5000", "text.txt"}},
                          {"--context 100", {"--context 100", "validation", "text.txt"}},
                          {"--data tiny.txt --context 1", {"--context 1", "tiny.txt"}}});
}

TEST_F(BadInput, UnusableConfigurations) {
  expect_refusals(kData, {{"--config missing.json", {"--config", "'missing.json'"}},
                          {"--config folder", {"--config", "'folder'", "folder"}},
                          {"--config empty.txt", {"--config", "'empty.txt'", "empty"}},
                          {"--config bad.json", {"--config bad.json", "JSON"}},
                          {"--config list.json", {"--config list.json", "object"}},
                          {"--config unknown.json", {"--config unknown.json", "'colour'"}},
                          {"--config range.json", {"--config range.json", "--steps"}},
                          {"--config type.json", {"--config type.json", "--steps"}}});
}

TEST_F(BadInput, NonEmptyRunFolderIsLeftAlone) {
  expect_refusal(folder_.train("--out full"), kUsage, {"--out full", "--force"}, "full");
  EXPECT_EQ(folder_.contents("full/metrics.jsonl"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "full"), fs::directory_iterator()), 1);
}

TEST_F(BadInput, FileAsRunFolderIsLeftAlone) {
  const std::string text = folder_.contents("text.txt");
  for (const char* const force : {"", " --force"}) {
    expect_refusal(folder_.train(std::string("--out text.txt") + force), kUsage, {"--out text.txt"},
                   "a file");
    EXPECT_EQ(folder_.contents("text.txt"), text);
  }
}

// Below a file and in /proc not even root may make folders.
TEST_F(BadInput, UnwritableRunFolders) {
  expect_refusal(folder_.train("--out text.txt/run"), kRuntime, {"text.txt/run"}, "below a file");
  expect_refusal(folder_.train("--out /proc/headcount"), kRuntime, {"/proc/headcount"}, "/proc");
}

// Weight decay turns its sign where it is greater than 1 / learning rate, and weights explode.
const std::string kExploding =
    "--lr 100 --min-lr 100 --warmup 0 --weight-decay 100 --grad-clip 0 --eval-every 0 --quiet ";

int diverged_at(const std::string& line) {
  const std::size_t at = line.find("at step ");
  return at == std::string::npos ? 0 : std::stoi(line.substr(at + 8));
}

TEST_F(BadInput, DivergingRunStopsAndNamesTheStep) {
  const ProgramResult result = folder_.train(kExploding + "--steps 50 --out run");
  expect_refusal(result, kDiverged, {"became ", " at step ", "--lr"}, "exploding weights");
  const int step = diverged_at(result.err);
  EXPECT_GT(step, 1) << result.err;
  EXPECT_LT(step, 50) << result.err;
  const std::string metrics = folder_.contents("run/metrics.jsonl");
  EXPECT_EQ(std::ranges::count(metrics, '\n'), step - 1);
  EXPECT_FALSE(folder_.has("run/checkpoints/step-50"));
}

TEST_F(BadInput, RunThatHasNoNumbersToBeginWithIsNotToldToLowerItsLearningRate) {
  for (const auto& [flags, cause] :
       {std::pair("--dropout 0.9 --dim 2 --heads 1 --norm-epsilon 0", "--norm-epsilon"),
        std::pair("--dropout 0.9 --dim 2 --heads 1 --norm-epsilon 0 --lr 0", "--norm-epsilon"),
        std::pair("--score-scale 1e39", "--score-scale")}) {
    const ProgramResult result = folder_.train(std::string(flags) + " --quiet --force --out run");
    expect_refusal(result, kDiverged, {"the loss became NaN at step 1; ", cause}, flags);
    for (const char* advice : {"lower", "--warmup", "--grad-clip"})
      EXPECT_EQ(result.err.find(advice), std::string::npos) << result.err;
  }
}

TEST_F(BadInput, TrapNamesTheOpThatDivergesAndCostsNoBits) {
  const ProgramResult spoiled =
      folder_.train("--score-scale 1e39 --trap-non-finite --quiet --out spoiled");
  expect_refusal(
      spoiled, kDiverged,
      {"op attention ([", ": the value is -nan at element 0, at step 1; ", "--score-scale"},
      "scores that overflow");
  for (const char* trap : {"", " --trap-non-finite"}) {
    const std::string run = std::string("run") + (*trap == 0 ? "" : "-trapped");
    ASSERT_EQ(folder_.train("--steps 3 --quiet --out " + run + trap).exit_code, 0);
  }
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), folder_.contents("run-trapped/metrics.jsonl"));
}

// Weights that give no finite loss do not displace others, also where a resumed run finds them.
TEST_F(BadInput, DivergingRunLeavesItsNewestCheckpointThatGivesALoss) {
  const std::string flags = "--steps 50 --checkpoint-every 1 --keep 1 --out run ";
  const int step = diverged_at(folder_.train(kExploding + flags).err);
  const std::string newest = "step-" + std::to_string(step - 2);
  const auto expect_newest = [&] {
    EXPECT_FALSE(folder_.has("run/checkpoints/step-" + std::to_string(step - 1)));
    EXPECT_EQ(folder_.contents("run/checkpoints/latest"), newest + "\n");
    for (const std::string line : {"eval --from run", "sample --from run"})
      EXPECT_EQ(folder_.headcount(line).exit_code, 0) << line;
  };
  expect_newest();
  EXPECT_EQ(diverged_at(folder_.headcount("train --quiet --resume run").err), step);
  expect_newest();
  // Stopped after the checkpoint: the next process tries its weights.
  EXPECT_EQ(folder_.signalled("train --quiet --resume run", 1, SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(folder_.has("run/checkpoints/step-" + std::to_string(step - 1)));
  EXPECT_EQ(diverged_at(folder_.headcount("train --quiet --resume run").err), step);
  expect_newest();
}

// The last update may be the one that spoils the weights.
TEST_F(BadInput, RunThatDivergesInItsLastStepIsNoSuccess) {
  const int step = diverged_at(folder_.train(kExploding + "--steps 50 --out first").err);
  const std::string steps = std::to_string(step - 1);
  const ProgramResult result = folder_.train(kExploding + "--out run --steps " + steps);
  expect_refusal(result, kDiverged, {"validation loss", "at step " + steps}, "last step");
}

}  // namespace
}  // namespace headcount
