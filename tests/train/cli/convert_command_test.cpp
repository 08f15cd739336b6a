// label: unsanitized
// `headcount convert` as its users meet it: what it prints, what goes on from it, what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/runs_of_a_suite.h"

namespace headcount {
namespace {

using nlohmann::json;

// One small run, which no test changes.
class ConvertCommand : public RunsOfASuite<ConvertCommand> {
 public:
  static constexpr const char* kCommand = "convert";
  static void prepare() { trained_ = train("run", "--heads 4 --layers 2 --steps 30"); }

 protected:
  static double loss_of(const std::string& folder) {
    const ProgramResult result =
        folder_->headcount("eval --format json --data text.txt --from " + folder);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out).at("loss");
  }
  ~ConvertCommand() override { EXPECT_FALSE(folder_->has("refused")); }

  static inline json trained_;
};

TEST_F(ConvertCommand, SaysWhatTheLossAndTheCacheBecome) {
  const json result = object("--from run --attention mqa --out to-mqa");
  const json &from = result.at("from"), &to = result.at("to");
  EXPECT_EQ(from.at("attention"), "mha");
  EXPECT_EQ(to.at("attention"), "mqa");
  EXPECT_EQ(from.at("loss"), trained_.at("val_loss"));
  EXPECT_GT(to.at("loss"), from.at("loss"));
  EXPECT_EQ(from.at("kv_cache_bytes_per_token"), 2 * 2 * 16 * 4);
  EXPECT_EQ(to.at("kv_cache_bytes_per_token"), 2 * 2 * 4 * 4);
  EXPECT_LT(to.at("params"), from.at("params"));
  EXPECT_EQ(result.at("out"), "to-mqa");
}

TEST_F(ConvertCommand, WritesTheModelWhoseLossItMeasured) {
  const json result = object("--from run --data text.txt --attention mla4+2 --out to-mla");
  EXPECT_NEAR(result.at("to").at("loss"), loss_of("to-mla"), 1e-6);
  EXPECT_NEAR(result.at("from").at("loss"), loss_of("run"), 1e-6);
  const std::string settings = result.at("to").at("settings");
  EXPECT_EQ(settings.rfind("mla: rope-dim 2, q-rank 0, kv-rank 4, nope-dim 2", 0), 0u) << settings;
}

TEST_F(ConvertCommand, WithoutJsonPrintsATable) {
  const ProgramResult result = call("--from run --attention gqa2 --out to-gqa");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* const part : {"from mha", "to   gqa: rope-dim 4, tie-kv off, kv-heads 2",
                                 "KV cache, bytes a token 256 -> 128", "text.txt, validation part)",
                                 "headcount train --init to-gqa"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  train("twelve", "--context 12 --steps 1");  // MHA of one layer: 32 numbers a token
  const ProgramResult window = call("--from twelve --attention mha@1 --out window");
  EXPECT_NE(window.out.find("KV cache, bytes a token 128.00 -> 10.67\n"), std::string::npos)
      << window.out << window.err;
}

TEST_F(ConvertCommand, PrintsACommandThatTrainsFurther) {
  const ProgramResult made = folder_->headcount(
      "train --data lookup --kinds 3 --dim 16 --steps 1 --eval-characters 2k --quiet --out board");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string printed = call("--from board --attention mqa --out to-board").out;
  const std::size_t at = printed.find("headcount train --init");
  ASSERT_NE(at, std::string::npos) << printed;
  const std::string command = printed.substr(at + 10, printed.find('\n', at) - at - 10);
  EXPECT_NE(command.find("--init to-board --data lookup --kinds 3"), std::string::npos) << command;
  const ProgramResult further =
      folder_->headcount(command + " --steps 1 --eval-characters 2k --quiet");
  EXPECT_EQ(further.exit_code, 0) << command << further.err;
}

TEST_F(ConvertCommand, NeedsNoTextOfTheRunWhereAnotherIsNamed) {
  std::filesystem::copy(*folder_ / "run", *folder_ / "moved",
                        std::filesystem::copy_options::recursive);
  std::string settings = folder_->contents("moved/config.json");
  settings.replace(settings.find("text.txt"), 8, "gone.txt");
  folder_->file("moved/config.json", settings);
  EXPECT_EQ(call("--from moved --attention mqa --data text.txt --out of-moved").exit_code, 0);
}

TEST_F(ConvertCommand, RefusesUnusableFlags) {
  expect_refusal(kUsage, "--attention mqa --out refused", {"--from is missing"});
  expect_refusal(kUsage, "--from run --attention mqa", {"--out is missing"});
  expect_refusal(kUsage, "--from run --out refused", {"--attention is missing"});
  expect_refusal(kUsage, "--from run --attention mqa --out run", {"--out run is there already"});
  expect_refusal(kData, "--from missing --attention mqa --out refused", {"'missing'"});
  expect_refusal(kUsage, "--from run --attention gqa2 --kv-heads 4 --out refused",
                 {"--kv-heads 4 changes nothing: --attention gqa2 sets another kv-heads"});
  expect_refusal(kUsage, "--from run --attention mqa --out refused --data bad\xff.txt",
                 {"--data must be UTF-8"});
  expect_refusal(kUsage, "--from run --attention mqa --layers 3 --out refused", {"layers"});
  expect_refusal(kUsage, "--from run --out refused --attention mha:canon=B",
                 {"--attention mha:canon=B sets", "which is fixed here"});
}

// Before any work is done.
TEST_F(ConvertCommand, RefusesPlacesThatItCannotWriteOrName) {
  std::filesystem::create_symlink("loop", *folder_ / "loop");
  const std::string from = "--from run --attention mqa --out ";
  expect_refusal(kUsage, from + "caf\xe9", {"--out must be UTF-8"});
  EXPECT_FALSE(folder_->has("caf\xe9"));
  expect_refusal(kUsage, from + "text.txt", {"--out text.txt is a file"});
  expect_refusal(kUsage, from + "loop/out", {"--out loop/out cannot be read: Too many levels"});
}

TEST_F(ConvertCommand, GivesANewFolderToOneOfTwoThatNameIt) {
  for (int i = 0; i < 5; ++i) {
    const std::string out = "race" + std::to_string(i);
    const auto line = [&](const char* attention) {
      return "convert --threads 1 --from run --out " + out + " --attention " + attention;
    };
    const pid_t other = folder_->start(line("mqa"));
    const int code = folder_->headcount(line("gqa2")).exit_code;
    EXPECT_EQ(code + exit_code_of(other), kUsage) << "one is done, one is refused";
    EXPECT_EQ(folder_->shell("cd " + out + " && sha256sum --check --quiet SHA256SUMS").exit_code,
              0);
  }
}

}  // namespace
}  // namespace headcount
