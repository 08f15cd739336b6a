// label: unsanitized
// `headcount convert` as its users meet it: what it prints, what goes on from it.
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// One small run, which no test changes.
class ConvertCommand : public RunsOfASuite<ConvertCommand> {
 public:
  static constexpr const char* kCommand = "convert";
  static void prepare() { trained_ = train("run", "--heads 4 --layers 2 --steps 30"); }

 protected:
  static inline json trained_;
};

TEST_F(ConvertCommand, SaysWhatTheLossAndTheCacheBecome) {
  const json result = object("--from run --attention mqa --out to-mqa");
  const json &from = result.at("from"), &to = result.at("to");
  expect_values(from, {{"attention", "mha"},
                       {"loss", trained_.at("val_loss")},
                       {"kv_cache_bytes_per_token", 2 * 2 * 16 * 4}});
  expect_values(to, {{"attention", "mqa"}, {"kv_cache_bytes_per_token", 2 * 2 * 4 * 4}});
  EXPECT_GT(to.at("loss"), from.at("loss"));
  EXPECT_LT(to.at("params"), from.at("params"));
  EXPECT_EQ(result.at("out"), "to-mqa");
}

// The run has lost its own text.
TEST_F(ConvertCommand, WritesTheModelWhoseLossItMeasured) {
  folder_->copy("run", "moved");
  json config = folder_->settings("moved");
  config["data"] = "gone.txt";
  folder_->settings("moved", config);
  const json result = object("--from moved --data text.txt --attention mla4+2 --out to-mla");
  for (const auto& [side, model] : {std::pair{"to", "to-mla"}, {"from", "run"}})
    EXPECT_NEAR(result[side]["loss"],
                folder_->object("eval --data text.txt --from " + std::string(model))["loss"], 1e-6);
  const std::string word = result.at("to").at("attention");
  EXPECT_TRUE(word.starts_with("mla4+2:") && word.find(":nope-dim=2") != word.npos) << word;
}

TEST_F(ConvertCommand, WithoutJsonPrintsATable) {
  expect_parts(call("--from run --attention gqa2 --out to-gqa").out,
               {"from mha", "to   gqa2\n", "KV cache, bytes a token 256 -> 128",
                "text.txt, validation part)", "headcount train --init to-gqa"});
}

TEST_F(ConvertCommand, PrintsACommandThatTrainsFurther) {
  folder_->done(
      "train --data lookup --directions 3 --dim 16 --steps 1 --eval-characters 2k --quiet --out "
      "board");
  const std::string printed = call("--from board --attention mqa --out to-board").out;
  const std::string command = "train --init to-board --data lookup --directions 3";
  expect_parts(printed, {" headcount " + command + "\n"});
  folder_->done(command + " --steps 1 --eval-characters 2k --quiet");
}

TEST_F(ConvertCommand, GivesANewFolderToOneOfTwoThatNameIt) {
  for (const std::string out : {"race1", "race2", "race3"}) {
    const std::string line = "convert --threads 1 --from run --out " + out + " --attention ";
    const pid_t other = folder_->start(line + "mqa");
    const int code = folder_->headcount(line + "gqa2").exit_code;
    EXPECT_EQ(code + exit_code_of(other), kUsage) << "one is done, one is refused";
    EXPECT_EQ(folder_->shell("cd " + out + " && sha256sum --check SHA256SUMS").exit_code, 0);
  }
}

}  // namespace
}  // namespace headcount
