// --precision bf16: refused where it would be slower, recorded, kept, never mixed.
#include <gtest/gtest.h>

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
  TrainFolder folder_;
};

TEST_F(PrecisionBf16, IsRefusedWhereItWouldBeSlower) {
  folder_.trained("--out f32 --quiet");
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

TEST_F(PrecisionBf16, IsRecordedKeptAndNotMixed) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  const json bf16 = folder_.object(TrainFolder::train_line(kModel + "--precision bf16 --out run"));
  EXPECT_EQ(folder_.json("run/config.json").at("precision"), "bf16");
  folder_.trained(kModel + "--out f32");
  EXPECT_FALSE(folder_.json("f32/config.json").contains("precision")) << "its default";
  EXPECT_NE(folder_.weights("run", 8), folder_.weights("f32", 8));
  expect_refusal(folder_.shell(kOldProcessor + "train --resume run"), kUsage,
                 {"--precision bf16", "resume the run on another machine"}, "an old processor");
  folder_.expect_refusal("train --resume run --precision f32", kUsage,
                         {"--precision", "f32", "bf16"});
  // Equal weights have another loss by rounding.
  EXPECT_EQ(folder_.object("eval --from run --precision bf16").at("loss"), bf16.at("val_loss"));
  const json exact = folder_.object("eval --from run").at("loss");
  EXPECT_NE(exact, bf16.at("val_loss"));
  EXPECT_NEAR(exact, bf16.at("val_loss"), 0.01);
  for (const std::string cache : {"on", "off"})
    folder_.done("sample --from run --tokens 20 --precision bf16 --cache " + cache);
  const std::string line =
      "compare --data text.txt --attention mha,mqa --seeds 1 --intervals off --layers 1 --heads 2 "
      "--context 16 --out both " +
      kModel;
  folder_.done(line + "--precision bf16");
  EXPECT_EQ(folder_.json("both/results.json").at("config").at("precision"), "bf16");
  folder_.expect_refusal(line, kData, {"precision", "bf16"});
  folder_.expect_refusal(line + "--sweep precision=f32,bf16", kUsage, {"--sweep", "precision"});
}

}  // namespace
}  // namespace headcount
