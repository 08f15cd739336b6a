// A program with an attention of one's own in it, one file that registers it: everything that the
// command line does with the others, it does with that one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

class OwnAttention : public testing::Test {
 protected:
  ProgramResult own(const std::string& line) const {
    const TemporaryFolder outputs;
    const std::string out = outputs.path() / "out", err = outputs.path() / "err";
    const int code =
        exit_code_of(start_process(HEADCOUNT_OWN_PROGRAM, words(line), folder_.path(), out, err));
    return {code, file_contents(out), file_contents(err)};
  }
  nlohmann::json json_of(const std::string& line) const {
    const ProgramResult result = own(line + " --json");
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    return nlohmann::json::parse(result.out);
  }
  static constexpr const char* kModel =
      " --layers 1 --dim 16 --heads 4 --context 16 --batch 2 --data text.txt";

  TrainFolder folder_;
};

TEST_F(OwnAttention, HasItsSettingsInHelp) {
  // Help breaks lines where they are full.
  const std::string help = std::regex_replace(own("train --help").out, std::regex("\\s+"), " ");
  EXPECT_NE(help.find("own: states; default 1"), std::string::npos) << help;
  EXPECT_NE(help.find("kda, own"), std::string::npos) << "in the list of attentions";
}

TEST_F(OwnAttention, TrainsResumesSamplesAndEvaluatesInEveryCacheType) {
  const std::string model = std::string(kModel) + " --attention own --kv-heads 2 --rope-dim 4";
  const nlohmann::json trained = json_of("train --steps 4 --out run" + model);
  EXPECT_EQ(trained["attention"], "own");
  EXPECT_EQ(trained["kv_cache_bytes_per_token"], (2 * 4 + 4) * 4);  // two states, the shared key
  const std::string cached =
      json_of("sample --from run --tokens 12 --temperature 0")["text"].get<std::string>();
  EXPECT_EQ(json_of("sample --from run --tokens 12 --temperature 0 --cache off")["text"], cached);
  for (const std::string type : {"f32", "bf16", "f16", "int8"}) {
    const nlohmann::json exact = json_of("eval --from run");
    const nlohmann::json result = json_of("eval --from run --cache-dtype " + type);
    EXPECT_NEAR(result["loss"], exact["loss"], 0.01) << type;
  }
}

TEST_F(OwnAttention, IsCostedBesideTheOthers) {
  const nlohmann::json cost = json_of("cost --dim 16 --heads 4 --context 8 --layers 1");
  EXPECT_NE(cost.dump().find("\"own\""), std::string::npos) << cost;
}

TEST_F(OwnAttention, IsComparedWithMhaByItsSpec) {
  const nlohmann::json result = json_of(
      "compare --attention mha,own2+4 --seeds 2 --steps 3 --out study" + std::string(kModel));
  ASSERT_EQ(result["variants"].size(), 2u) << result;
  EXPECT_EQ(result["variants"][1]["spec"], "own2+4") << result["variants"][1];
}

TEST_F(OwnAttention, RefusesSettingsThatAreNotItsOwn) {
  const ProgramResult result =
      own("train --attention own --kv-rank 4 --steps 1 --out run" + std::string(kModel));
  expect_refusal(result, 2, {"--kv-rank has no effect with --attention own", "mla"}, "kv-rank");
}

}  // namespace
}  // namespace headcount
