// What each command says of weights, and of results, that are NaN or infinite.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "train/runs_of_a_suite.h"

namespace headcount {
namespace {

const std::string kKeys = "model.layers.0.self_attn.k_proj.weight";

// A run, and models that differ from its own in a weight: `nan`, with one NaN in the keys, and
// `large`, whose keys exceed the numbers of float16.
class NonFiniteNumbers : public RunsOfASuite<NonFiniteNumbers> {
 public:
  static void prepare() {
    train("run");
    spoil("nan", [](std::vector<Real>& keys) { keys[7] = std::numeric_limits<Real>::quiet_NaN(); });
    spoil("large", [](std::vector<Real>& keys) {
      for (Real& x : keys) x *= Real{1e8};
    });
  }

 protected:
  // Copies the run's model to the folder `name` with changed keys.
  template <class Change>
  static void spoil(const std::string& name, const Change& change) {
    std::filesystem::copy(*folder_ / "run/checkpoints/step-3", *folder_ / name);
    spoil_tensor(*folder_ / name, "model.safetensors", kKeys, change);
  }
  template <class Change>
  static void spoil_tensor(const std::filesystem::path& folder, const char* name,
                           const std::string& tensor_name, const Change& change) {
    const Safetensors file = open_safetensors(folder / name);
    std::vector<Real> numbers(file.at(tensor_name).element_count());
    read_into(file.at(tensor_name), numbers);
    change(numbers);
    std::vector<TensorSource> tensors;
    for (const TensorView& tensor : file.tensors()) {
      tensors.push_back({tensor.name, tensor.shape, tensor.dtype, tensor.bytes.data()});
      if (tensor.name == tensor_name) tensors.back().data = numbers.data();
    }
    write_safetensors(folder / "changed", tensors);
    std::filesystem::rename(folder / "changed", folder / name);
    std::filesystem::remove(folder / "SHA256SUMS");
  }
};

TEST_F(NonFiniteNumbers, OfAModelAreRefusedByEveryCommandThatLoadsIt) {
  for (const std::string line :
       {"sample --prompt 1 --from nan", "eval --data text.txt --from nan",
        "eval --data text.txt --format json --attention-stats --from nan",
        "attend --text 12 --from nan", "convert --attention mqa --out converted --from nan",
        "train --data text.txt --init nan --out next"}) {
    folder_->expect_refusal(line, kData,
                            {"nan/model.safetensors: " + kKeys + " is nan at element 7"});
    if (line.starts_with("train")) continue;
    folder_->expect_refusal(line + " --allow-non-finite", kDiverged,
                            {kKeys + " is nan at element 7"});
  }
  for (const char* folder : {"converted", "next"}) EXPECT_FALSE(folder_->has(folder)) << folder;
}

TEST_F(NonFiniteNumbers, OfAnOptimizerEndARunThatIsResumed) {
  folder_->copy("run", "resumed");
  spoil_tensor(*folder_ / "resumed/checkpoints/step-3", "optimizer.safetensors",
               "second_moment." + kKeys,
               [](std::vector<Real>& v) { v[7] = std::numeric_limits<Real>::infinity(); });
  folder_->expect_refusal("train --resume resumed --steps 5", kData,
                          {"step-3/optimizer.safetensors: second_moment." + kKeys +
                           " is inf at element 7; take another checkpoint"});
}

TEST_F(NonFiniteNumbers, ThatOverflowACacheNameItsType) {
  for (const std::string line :
       {"sample --prompt 12 --from large ", "eval --data text.txt --from large "}) {
    for (const char* type : {"f32", "bf16"}) folder_->done(line + "--cache-dtype " + type);
    for (const std::string type : {"f16", "int8"})
      folder_->expect_refusal(line + "--cache-dtype " + type, kDiverged,
                              {"the " + type + " KV cache overflows", "--cache-dtype bf16 or f32",
                               type == "f16" ? "65504" : ""});
  }
}

// Weight decay turns its sign where it is greater than 1 / learning rate, and weights explode.
const std::string kExploding =
    "--lr 100 --min-lr 100 --warmup 0 --weight-decay 100 --grad-clip 0 --eval-every 0 --quiet ";

int diverged_at(const std::string& line) {
  const std::size_t at = line.find("at step ");
  return at == std::string::npos ? 0 : std::stoi(line.substr(at + 8));
}

TEST(DivergingTraining, ThatHasNoNumbersToBeginWithIsNotToldToLowerItsLearningRate) {
  const TrainFolder folder;
  const std::string small = "--dropout 0.9 --dim 2 --heads 1 --norm-epsilon 0";
  for (const auto& [flags, cause] : {std::pair(small, "--norm-epsilon"),
                                     {small + " --lr 0", "--norm-epsilon"},
                                     {"--score-scale 1e39", "--score-scale"}}) {
    const ProgramResult result = folder.train(flags + " --quiet --force --out run");
    expect_refusal(result, kDiverged, {"the loss became NaN at step 1; ", cause}, flags);
    for (const char* advice : {"lower", "--warmup", "--grad-clip"})
      EXPECT_EQ(result.err.find(advice), std::string::npos) << result.err;
  }
}

TEST(DivergingTraining, IsTrappedWithTheOpAndCostsNoBits) {
  const TrainFolder folder;
  const ProgramResult spoiled =
      folder.train("--score-scale 1e39 --trap-non-finite --quiet --out spoiled");
  expect_refusal(
      spoiled, kDiverged,
      {"op attention ([", ": the value is -nan at element 0, at step 1; ", "--score-scale"},
      "scores that overflow");
  folder.trained("--quiet --out run");
  folder.trained("--quiet --out trapped --trap-non-finite");
  EXPECT_EQ(folder.contents("run/metrics.jsonl"), folder.contents("trapped/metrics.jsonl"));
}

// Weights that give no finite loss do not displace others, also where a resumed run finds them.
TEST(DivergingTraining, NamesTheStepAndLeavesItsNewestCheckpointThatGivesALoss) {
  const TrainFolder folder;
  const std::string flags = kExploding + "--checkpoint-every 1 --keep 1 --out ";
  const ProgramResult result = folder.train(flags + "run --steps 50");
  expect_refusal(result, kDiverged, {"became ", " at step ", "--lr"}, "exploding weights");
  const int step = diverged_at(result.err);
  EXPECT_TRUE(step > 2 && step < 50) << result.err;
  EXPECT_EQ(std::ssize(folder.metrics("run")), step - 1);
  const std::string newest = "step-" + std::to_string(step - 2),
                    last = "step-" + std::to_string(step - 1);
  const auto expect_newest = [&] {
    EXPECT_FALSE(folder.has("run/checkpoints/" + last));
    EXPECT_EQ(folder.contents("run/checkpoints/latest"), newest + "\n");
    for (const std::string line : {"eval --from run", "sample --from run"}) folder.done(line);
  };
  expect_newest();
  EXPECT_EQ(diverged_at(folder.headcount("train --quiet --resume run").err), step);
  expect_newest();
  // Stopped after the checkpoint: the next process tries its weights.
  EXPECT_EQ(folder.signalled("train --quiet --resume run", 1, SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(folder.has("run/checkpoints/" + last));
  EXPECT_EQ(diverged_at(folder.headcount("train --quiet --resume run").err), step);
  expect_newest();
  // The last update of a run may be the one that spoils the weights.
  const std::string steps = std::to_string(step - 1);
  expect_refusal(folder.train(flags + "short --steps " + steps), kDiverged,
                 {"validation loss", "at step " + steps}, "last step");
}

}  // namespace
}  // namespace headcount
