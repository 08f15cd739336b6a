// `headcount sample` as its users meet it: text, JSON, caches, and what it says to bad input.
#include <set>

#include "autograd/base/real.h"
#include "autograd/base/text.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Index kContext = 16;  // of TrainFolder's model

// One small run, which no test changes.
class SampleCommand : public RunsOfASuite<SampleCommand> {
 public:
  static constexpr const char* kCommand = "sample";
  static void prepare() { train("run"); }
};

TEST_F(SampleCommand, PrintsThePromptAndItsContinuation) {
  const std::string out = text("--from run --tokens 20", {"--prompt", "16 is"});
  EXPECT_TRUE(out.starts_with("16 is")) << out;
  EXPECT_EQ(out.size(), 5u + 20u + 1u);  // and a line break at the end
  EXPECT_EQ(out.find_first_not_of(folder_->contents("text.txt")), std::string::npos);
  const std::string usual = text("--from run --tokens 20");
  EXPECT_EQ(text("--from run --tokens 20", {"--prompt", "\n"}), "\n" + usual);
  EXPECT_EQ(text("--from run/checkpoints/step-3 --tokens 20 --seed 1 --threads 2"), usual);
  EXPECT_NE(text("--from run --tokens 20 --seed 6"), usual);
}

TEST_F(SampleCommand, WithJsonPrintsOneObject) {
  const json result = object("--from run --tokens 12 --prompt 16");
  EXPECT_EQ(result.at("text").get<std::string>().size(), 12u);
  EXPECT_GT(result.at("tokens_per_second"), 0);
  EXPECT_GT(result.at("prefill_ms"), 0);
  const Index bytes = 2 * 16 * 4;  // k and v of width 16 in float32
  expect_values(
      result,
      {{"tokens", 12}, {"cache_bytes_per_token", bytes}, {"cache_bytes", bytes * kContext}});
  expect_values(object("--from run --tokens 5 --cache off"),
                {{"cache_bytes", 0}, {"cache_bytes_per_token", 0}});
}

TEST_F(SampleCommand, CountsCharactersNotBytes) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "äöü→𝄞ß\n";
  folder_->file("accents.txt", lines);
  train("accents", "--data accents.txt");
  const json result = object("--from accents --tokens 25 --prompt äö→");
  EXPECT_EQ(result.at("tokens"), 25);
  EXPECT_EQ(decode_utf8(result.at("text").get<std::string>(), "text").size(), 25u);
  EXPECT_TRUE(text("--from accents --tokens 5 --prompt äö→").starts_with("äö→"));
}

// sampling_test.cpp holds what slides, stops and ends a text.
TEST_F(SampleCommand, RepeatsOnePromptInSeveralTextsAndSaysWhatEndedThem) {
  const std::string flags = "--from run --tokens 30 --prompt 16";
  const json result = object(flags + " --repeat 3"), single = object(flags);
  const auto texts = result.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 3u);
  EXPECT_EQ(json(texts[0]), result.at("text"));
  EXPECT_EQ(json(texts[0]), single.at("text"));
  EXPECT_EQ(result.at("cache_bytes"), 3 * single.at("cache_bytes").get<int>());
  EXPECT_EQ(result.at("cache_bytes_per_token"), single.at("cache_bytes_per_token"));
  EXPECT_EQ(text(flags + " --repeat 3"),
            "--- 1\n16" + texts[0] + "\n--- 2\n16" + texts[1] + "\n--- 3\n16" + texts[2] + "\n");
  const std::string stop = texts[0].substr(7, 4),  // the second text has it nowhere
      ended = texts[0].substr(0, texts[0].find(stop) + 4);
  ASSERT_EQ(texts[1].find(stop), std::string::npos);
  const json stopped =
      object(flags + " --repeat 2", {"--stop", stop, "--stop", texts[1].substr(20)});
  EXPECT_EQ(stopped.at("texts"), json({ended, texts[1]}));
  EXPECT_EQ(stopped.at("tokens"), ended.size());
  EXPECT_EQ(stopped.at("texts_ended_by"), json({"stop", "stop"}));
  EXPECT_EQ(single.at("ended_by"), "tokens");
  const json in_context = object(flags + " --at-context stop");
  EXPECT_EQ(in_context.at("ended_by"), "context");
  // The last character comes from a full context.
  EXPECT_EQ(in_context.at("text"), texts[0].substr(0, kContext - 2 + 1));
}

TEST_F(SampleCommand, SaysWhenTheFirstCheckpointOfARunComes) {
  for (const auto& [flags, first] : {std::pair("", "3"),
                                     {"--checkpoint-every 2", "2"},
                                     {"--eval-every 1", "1"},
                                     {"--eval-every 1 --checkpoint-every 0", "3"}}) {
    folder_->trained(std::string("--quiet --force --out begun ") + flags);
    fs::remove_all(*folder_ / "begun/checkpoints");
    const std::string why = "'begun' has no checkpoint yet; its first comes at step ";
    expect_refusal(kData, "--from begun", {why + first});
    folder_->expect_refusal(TrainFolder::train_line("--init begun --out next"), kData,
                            {"--init: " + why + first});
  }
}

}  // namespace
}  // namespace headcount
