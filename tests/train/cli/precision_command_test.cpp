// --precision bf16: refused where it would be slower, recorded, kept, never mixed.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "autograd/products.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// Limits oneDNN to AVX2, as on a processor without instructions for bfloat16.
const std::string kOldProcessor = "DNNL_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $headcount ";
// Large enough that products are rounded.
const std::string kModel = "--dim 32 --batch 4 --steps 8 --quiet ";

class PrecisionBf16 : public testing::Test {
 protected:
  json config(const std::string& run) const {
    return json::parse(folder_.contents(run + "/config.json"));
  }
  double loss(const std::string& flags) const {
    const ProgramResult result = folder_.headcount("eval --format json --from " + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out).at("loss");
  }
  TrainFolder folder_;
};

TEST_F(PrecisionBf16, IsRefusedWhereItWouldBeSlower) {
  ASSERT_EQ(folder_.train("--out f32 --quiet").exit_code, 0);
  const std::string lacks = gemm_library() == GemmLibrary::onednn
                                ? "the processor has neither amx_bf16 nor avx512_bf16"
                                : "built without oneDNN";
  for (const std::string& line :
       {TrainFolder::train_line("--precision bf16 --out a"),
        std::string("compare --data text.txt --attention mha,mqa --precision bf16 --out b"),
        std::string("eval --from f32 --precision bf16"),
        std::string("sample --from f32 --precision bf16")}) {
    expect_refusal(folder_.shell(kOldProcessor + line), kUsage, {"--precision bf16", lacks}, line);
  }
  EXPECT_FALSE(folder_.has("a"));
  EXPECT_FALSE(folder_.has("b"));
}

TEST_F(PrecisionBf16, IsRecordedAndKeptOnResume) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  const std::string flags = kModel + "--checkpoint-every 4 --precision bf16 --out ";
  ASSERT_EQ(folder_.train(flags + "whole").exit_code, 0);
  EXPECT_EQ(config("whole").at("precision"), "bf16");
  ASSERT_EQ(folder_.train(kModel + "--out f32").exit_code, 0);
  EXPECT_FALSE(config("f32").contains("precision")) << "a setting that has its default";
  EXPECT_NE(folder_.weights("whole", 8), folder_.weights("f32", 8));

  std::filesystem::copy(folder_ / "whole", folder_ / "half",
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "half/checkpoints/step-8");
  expect_refusal(folder_.shell(kOldProcessor + "train --resume half"), kUsage,
                 {"--precision bf16", "resume the run on another machine"}, "an old processor");
  expect_refusal(folder_.headcount("train --resume half --precision f32"), kUsage,
                 {"--precision", "f32", "bf16"}, "another precision");
  EXPECT_FALSE(folder_.has("half/checkpoints/step-8"));
  ASSERT_EQ(folder_.headcount("train --resume half --quiet --threads 1").exit_code, 0);
  EXPECT_EQ(folder_.weights("half", 8), folder_.weights("whole", 8));
}

TEST_F(PrecisionBf16, ChangesTheLossOfTheSameWeightsByRounding) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  const ProgramResult trained = folder_.train(kModel + "--precision bf16 --format json --out run");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const double validation = json::parse(trained.out).at("val_loss");
  EXPECT_EQ(loss("run --precision bf16"), validation);
  const double exact = loss("run");
  EXPECT_NE(exact, validation);
  EXPECT_NEAR(exact, validation, 0.01);
  for (const std::string cache : {"on", "off"}) {
    const std::string line = "sample --from run --tokens 20 --precision bf16 --cache " + cache;
    EXPECT_EQ(folder_.headcount(line).exit_code, 0) << line;
  }
}

TEST_F(PrecisionBf16, IsNotMixedInOneComparison) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  const std::string line =
      "compare --data text.txt --attention mha,mqa --seeds 1 --intervals off --layers 1 --heads 2 "
      "--context 16 --out both " +
      kModel;
  ASSERT_EQ(folder_.headcount(line + "--precision bf16").exit_code, 0);
  EXPECT_EQ(json::parse(folder_.contents("both/results.json")).at("config").at("precision"),
            "bf16");
  expect_refusal(folder_.headcount(line), kData, {"precision", "bf16"}, line);
  expect_refusal(folder_.headcount(line + "--sweep precision=f32,bf16"), kUsage,
                 {"--sweep", "precision"}, "a sweep");
}

}  // namespace
}  // namespace headcount
