// label: unsanitized
// headcount compare --init-from: what training from random weights gives, and what converting a
// trained model and training on gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ConversionComparison : public testing::Test {
 protected:
  ConversionComparison() { train(); }

  void train(const std::string& more = "") {
    const ProgramResult result =
        folder_.train(over_defaults("--heads 4 --lr 0.01 --warmup 4 --steps 40 --out run", more) +
                      " --quiet --json");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    trained_ = json::parse(result.out);
  }
  ProgramResult compare(const std::string& flags) const {
    return folder_.headcount("compare --init-from run --threads 1 --seeds 2 --out c " + flags);
  }
  json results() const { return json::parse(folder_.contents("c/results.json")); }
  json variant(const std::string& spec) const {
    const json all = results();
    for (const json& one : all["variants"]) {
      if (one["spec"] == spec) return one;
    }
    ADD_FAILURE() << "no " << spec;
    return {};
  }
  json settings(const std::string& run) const {
    return json::parse(folder_.contents("c/runs/" + run + "/config.json"));
  }

  TrainFolder folder_;
  json trained_;
};

TEST_F(ConversionComparison, SetsEachConversionAgainstTrainingFromRandomWeights) {
  const ProgramResult result = compare("--attention mha,mqa");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = results();
  ASSERT_EQ(r["variants"].size(), 12u);
  EXPECT_EQ(r["verdict"]["reference"], "mha");
  // The model itself, converted to what it is, before any training.
  const json converted = variant("mha converted");
  for (const json& loss : converted["val_losses"]) EXPECT_NEAR(loss, trained_["val_loss"], 1e-5);
  const double lost = variant("mqa converted")["val_loss_mean"];
  EXPECT_GT(lost, trained_["val_loss"].get<double>() + 0.01);
  EXPECT_LT(variant("mqa converted +100 %")["val_loss_mean"], lost);
  EXPECT_EQ(variant("mqa converted +5 %")["trained_on_percent"], 5);
  EXPECT_EQ(variant("mqa")["trained_on_percent"], nullptr);
  EXPECT_EQ(settings("mqa/seed-1")["steps"], 40);
  EXPECT_EQ(settings("mqa-converted-5/seed-1")["steps"], 2);
  EXPECT_EQ(settings("mqa-converted-20/seed-2")["steps"], 8);
  EXPECT_EQ(settings("mqa-converted-20/seed-2")["warmup"], 1);
  // Training from random weights gives the result of `headcount train`.
  EXPECT_EQ(variant("mha")["val_losses"][0], trained_["val_loss"]);
  for (const std::string name : {"mha converted ", "mqa converted +1 %", "mqa converted +20 %"})
    EXPECT_NE(result.out.find(name), std::string::npos) << result.out;
  // Models that were converted and not trained have a reading, too.
  EXPECT_EQ(result.out.find("has no reading"), std::string::npos) << result.out;
  EXPECT_EQ(variant("mqa converted +5 %")["attention"], "mqa");
  EXPECT_TRUE(folder_.has("c/report.html"));
}

TEST_F(ConversionComparison, ComparesLatentsOfTheSameSizesBothWays) {
  ASSERT_EQ(compare("--attention mla4+2 --latent-norm off").exit_code, 0);
  for (const std::string run : {"mla4+2/seed-1", "mla4+2-converted-1/seed-1"}) {
    EXPECT_EQ(settings(run)["nope-dim"], 2) << run;
    EXPECT_EQ(settings(run)["latent-norm"], "off") << run;
  }
}

TEST_F(ConversionComparison, RepeatsNothingThatIsFinishedAndTellsOtherWeights) {
  ASSERT_EQ(compare("--attention mqa").exit_code, 0);
  const json before = results();
  const ProgramResult again = compare("--attention mqa");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("12 of 12 runs were finished before"), std::string::npos) << again.err;
  EXPECT_EQ(results()["variants"][2]["val_losses"], before["variants"][2]["val_losses"]);
  EXPECT_EQ(results()["trained_by_others"], json::array());
  // However its folder is spelled.
  const ProgramResult spelled = folder_.headcount(
      "compare --init-from run --threads 1 --seeds 2 --out ./c --data ./text.txt --attention mqa");
  EXPECT_NE(spelled.err.find("12 of 12 runs were finished before"), std::string::npos)
      << spelled.err;
  train("--force --seed 2");
  const std::string weights = "c/converted/mqa/model.safetensors", kept = folder_.contents(weights);
  expect_refusal(compare("--attention mqa"), kData,
                 {"c/converted/mqa holds a model that was converted from other weights", "--force"},
                 "");
  EXPECT_EQ(folder_.contents(weights), kept);
  EXPECT_EQ(compare("--attention mqa --force").exit_code, 0);
  EXPECT_NE(folder_.contents(weights), kept);
}

TEST_F(ConversionComparison, LeavesItsRunsToAReport) {
  ASSERT_EQ(compare("--attention mqa").exit_code, 0);
  const std::string report = "report --out r --from c/runs/mqa-converted-0/seed-1 ";
  const ProgramResult both = folder_.headcount(report + "c/runs/mqa-converted-100/seed-1");
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.out.find(" 40 "), std::string::npos) << both.out;
  expect_refusal(folder_.headcount(report), kData, {"a run of no steps"}, "");
}

TEST_F(ConversionComparison, RemovesNothingThatIsNoModel) {
  std::filesystem::create_directories(folder_ / "c/converted/mqa");
  folder_.file("c/converted/mqa/thesis.txt", "precious");
  expect_refusal(compare("--attention mqa"), kData,
                 {"c/converted/mqa/thesis.txt is no file of a model; move it away"}, "");
  EXPECT_EQ(folder_.contents("c/converted/mqa/thesis.txt"), "precious");
}

TEST_F(ConversionComparison, TakesAnotherTextOnlyWhereOneIsNamed) {
  folder_.file("text.txt", folder_.contents("text.txt") + "49 is a square.\n");
  expect_refusal(compare("--attention mqa"), kData,
                 {"text.txt is no longer the text of the run in", "--data"}, "a changed text");
  EXPECT_FALSE(folder_.has("c/runs"));
  EXPECT_EQ(compare("--attention mqa --steps 5 --data text.txt").exit_code, 0);
}

TEST_F(ConversionComparison, RefusesWhatItCannotConvertBeforeItTrainsAnything) {
  const auto refuses = [&](int code, const std::string& flags,
                           const std::vector<std::string>& parts) {
    expect_refusal(compare(flags), code, parts, flags);
    EXPECT_FALSE(folder_.has("c/runs")) << flags;
  };
  refuses(kUsage, "--attention mha,delta",
          {"--init-from run", "no conversion to --attention delta"});
  refuses(kUsage, "--attention mqa --layers 3", {"--layers"});
  refuses(kUsage, "--attention mqa --preset nanogpt-cpu", {"--preset", "--init-from"});
  refuses(kUsage, "--attention mqa --match params", {"--match", "--init-from"});
  refuses(kUsage, "--attention mqa --sweep lr=1e-3,1e-2", {"--sweep", "--init-from"});
  expect_refusal(folder_.headcount("compare --init-from missing --out c"), kData, {"'missing'"},
                 "");
  expect_refusal(folder_.headcount("compare --init-from run/checkpoints/step-40 --out c"), kUsage,
                 {"--init-from", "run folder"}, "");
}

}  // namespace
}  // namespace headcount
