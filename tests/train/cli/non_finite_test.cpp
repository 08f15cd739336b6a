// What each command says of weights, and of results, that are NaN or infinite.
#include <csignal>
#include <cstring>
#include <limits>

#include "autograd/base/real.h"
#include "train/run_program.h"

namespace headcount {
namespace {

const std::string kKeys = "model.layers.0.self_attn.k_proj.weight";

// A run, and models that differ from its own in one weight: `nan`, and `large`, with which keys
// exceed the numbers of float16.
class NonFiniteNumbers : public RunsOfASuite<NonFiniteNumbers> {
 public:
  static void prepare() {
    train("run");
    for (const auto& [name, value] :
         {std::pair{"nan", std::numeric_limits<Real>::quiet_NaN()}, {"large", Real{1e9}}}) {
      folder_->copy("run/checkpoints/step-3", name);
      spoil(name, "model.safetensors", kKeys, value);
    }
  }

 protected:
  // Replaces element 7 of a tensor in a file of a checkpoint.
  static void spoil(const std::string& checkpoint, const std::string& file,
                    const std::string& tensor, Real value) {
    std::string bytes = folder_->contents(checkpoint + "/" + file);
    std::uint64_t length = 0;  // of the header behind it
    std::memcpy(&length, bytes.data(), sizeof length);
    const auto header = nlohmann::json::parse(bytes.substr(sizeof length, length));
    const std::size_t begin = header.at(tensor).at("data_offsets").at(0);
    std::memcpy(&bytes[sizeof length + length + begin + 7 * sizeof value], &value, sizeof value);
    folder_->file(checkpoint + "/" + file, bytes);
    std::filesystem::remove(*folder_ / checkpoint / "SHA256SUMS");
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
  spoil("resumed/checkpoints/step-3", "optimizer.safetensors", "second_moment." + kKeys,
        std::numeric_limits<Real>::infinity());
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
    "--lr 100 --min-lr 100 --warmup 0 --weight-decay 100 --grad-clip 0 --eval-every 0 --quiet "
    "--checkpoint-every 1 --keep 1 --out ";

TEST(DivergingTraining, ThatHasNoNumbersToBeginWithIsNotToldToLowerItsLearningRate) {
  const TrainFolder folder;
  const std::string small = "--dropout 0.9 --dim 2 --heads 1 --norm-epsilon 0";
  for (const auto& [flags, cause] :
       {std::pair(small, "--norm-epsilon"), {"--score-scale 1e39", "--score-scale"}}) {
    const ProgramResult result = folder.train(flags + " --quiet --force --out run");
    expect_refusal(result, kDiverged, {"the loss became NaN at step 1; ", cause}, flags);
    expect_no_parts(result.err, {"lower", "--warmup", "--grad-clip"});
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
  const ProgramResult result = folder.train(kExploding + "run --steps 50");
  expect_refusal(result, kDiverged, {"became ", " at step ", "--lr"}, "exploding weights");
  const int step = std::stoi(result.err.substr(result.err.find(" at step ") + 9));
  EXPECT_TRUE(step > 2 && step < 50) << result.err;
  EXPECT_EQ(std::ssize(folder.metrics("run")), step - 1);
  const std::string newest = "step-" + std::to_string(step - 2),
                    last = "step-" + std::to_string(step - 1);
  for (const char* when : {"trained", "resumed", "resumed after a stop"}) {
    if (std::string(when).ends_with("stop")) {  // behind the checkpoint, whose weights are tried
      EXPECT_EQ(folder.signalled("train --quiet --resume run", 1, SIGTERM), 128 + SIGTERM);
      EXPECT_TRUE(folder.has("run/checkpoints/" + last));
    }
    if (when[0] == 'r')
      folder.expect_refusal("train --quiet --resume run", kDiverged,
                            {" at step " + std::to_string(step)});
    EXPECT_FALSE(folder.has("run/checkpoints/" + last));
    EXPECT_EQ(folder.contents("run/checkpoints/latest"), newest + "\n");
    for (const std::string line : {"eval --from run", "sample --from run"}) folder.done(line);
  }
  // The last update of a run may be the one that spoils the weights.
  const std::string steps = std::to_string(step - 1);
  expect_refusal(folder.train(kExploding + "short --steps " + steps), kDiverged,
                 {"validation loss", "at step " + steps}, "last step");
}

}  // namespace
}  // namespace headcount
