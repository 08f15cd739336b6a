// What each command says of weights, and of results, that are NaN or infinite.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

const std::string kKeys = "model.layers.0.self_attn.k_proj.weight";

// A run, and models that differ from its own in a weight: `nan`, with one NaN in the keys, and
// `large`, whose keys exceed the numbers of float16.
class NonFiniteNumbers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TrainFolder>();
    folder_->trained("--quiet --out run");
    spoil("nan", [](std::vector<Real>& keys) { keys[7] = std::numeric_limits<Real>::quiet_NaN(); });
    spoil("large", [](std::vector<Real>& keys) {
      for (Real& x : keys) x *= Real{1e8};
    });
  }
  static void TearDownTestSuite() { folder_.reset(); }

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
  static void expect_refusal(const std::string& line, int code,
                             const std::vector<std::string>& parts) {
    headcount::expect_refusal(folder_->headcount(line), code, parts, line);
  }

  static std::unique_ptr<TrainFolder> folder_;
};

std::unique_ptr<TrainFolder> NonFiniteNumbers::folder_;

TEST_F(NonFiniteNumbers, OfAModelAreRefusedByEveryCommandThatLoadsIt) {
  for (const std::string line :
       {"sample --prompt 1 --from nan", "eval --data text.txt --from nan",
        "eval --data text.txt --json --attention-stats --from nan", "attend --text 12 --from nan",
        "convert --attention mqa --out converted --from nan",
        "train --data text.txt --init nan --out next"}) {
    expect_refusal(line, kData, {"nan/model.safetensors: " + kKeys + " is nan at element 7"});
    if (line.starts_with("train")) continue;
    expect_refusal(line + " --allow-non-finite", kDiverged, {kKeys + " is nan at element 7"});
  }
  for (const char* folder : {"converted", "next"}) EXPECT_FALSE(folder_->has(folder)) << folder;
}

TEST_F(NonFiniteNumbers, OfAnOptimizerEndARunThatIsResumed) {
  namespace fs = std::filesystem;
  fs::copy(*folder_ / "run", *folder_ / "resumed", fs::copy_options::recursive);
  spoil_tensor(*folder_ / "resumed/checkpoints/step-3", "optimizer.safetensors",
               "second_moment." + kKeys,
               [](std::vector<Real>& v) { v[7] = std::numeric_limits<Real>::infinity(); });
  expect_refusal("train --resume resumed --steps 5", kData,
                 {"step-3/optimizer.safetensors: second_moment." + kKeys +
                  " is inf at element 7; take another checkpoint"});
}

TEST_F(NonFiniteNumbers, ThatOverflowACacheNameItsType) {
  for (const std::string line :
       {"sample --prompt 12 --from large ", "eval --data text.txt --from large "}) {
    for (const char* type : {"f32", "int8", "bf16"})
      EXPECT_EQ(folder_->headcount(line + "--cache-dtype " + type).exit_code, 0) << line << type;
    expect_refusal(line + "--cache-dtype f16", kDiverged,
                   {"the f16 KV cache overflows", "65504", "--cache-dtype bf16, int8 or f32"});
  }
}

}  // namespace
}  // namespace headcount
