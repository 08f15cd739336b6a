// --precision bf16: refused where it would be slower, recorded, kept, never mixed.
#include "autograd/products/products.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// Limits oneDNN to AVX2, as on a processor without instructions for bfloat16.
const std::string kOldProcessor = "DNNL_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 headcount ";
// Large enough that products are rounded.
const std::string kModel = "--dim 32 --batch 4 --steps 8 ";

TEST(PrecisionBf16, IsRefusedWhereItWouldBeSlower) {
  const TrainFolder folder;
  folder.trained("--out f32 --quiet");
  const std::string lacks = gemm_library().starts_with("oneDNN")
                                ? "the processor has neither amx_bf16 nor avx512_bf16"
                                : "built without oneDNN";
  for (const std::string line : {"train --data text.txt --out a", "compare --data text.txt --out a",
                                 "eval --from f32", "sample --from f32"})
    expect_refusal(folder.shell(kOldProcessor + line + " --precision bf16"), kUsage,
                   {"--precision bf16", lacks}, line);
  EXPECT_FALSE(folder.has("a"));
}

TEST(PrecisionBf16, IsRecordedKeptAndNotMixed) {
  if (!bf16_lacks().empty()) GTEST_SKIP() << bf16_lacks();
  const TrainFolder folder;
  const json bf16 = folder.object(TrainFolder::train_line(kModel + "--precision bf16 --out run"));
  EXPECT_EQ(folder.settings("run").at("precision"), "bf16");
  folder.trained(kModel + "--out f32");
  EXPECT_FALSE(folder.settings("f32").contains("precision")) << "its default";
  EXPECT_NE(folder.weights("run", 8), folder.weights("f32", 8));
  expect_refusal(folder.shell(kOldProcessor + "train --resume run"), kUsage,
                 {"--precision bf16", "resume the run on another machine"}, "an old processor");
  folder.expect_refusal("train --resume run --precision f32", kUsage,
                        {"--precision", "f32", "bf16"});
  // Equal weights have another loss by rounding.
  EXPECT_EQ(folder.object("eval --from run --precision bf16 --window 16").at("loss"),
            bf16.at("val_loss"));
  const json exact = folder.object("eval --from run").at("loss");
  EXPECT_NE(exact, bf16.at("val_loss"));
  EXPECT_NEAR(exact, bf16.at("val_loss"), 0.01);
  for (const std::string cache : {"on", "off"})
    folder.done("sample --from run --tokens 20 --precision bf16 --cache " + cache);
  const std::string line = TrainFolder::compare_line(
      kModel + "--attention mha,mqa --seeds 1 --intervals off --out both");
  folder.done(line + " --precision bf16");
  EXPECT_EQ(folder.json("both/results.json").at("config").at("precision"), "bf16");
  folder.expect_refusal(line, kUsage, {"precision", "bf16"});
  folder.expect_refusal(line + " --sweep precision=f32,bf16", kUsage, {"--sweep", "precision"});
}

}  // namespace
}  // namespace headcount
