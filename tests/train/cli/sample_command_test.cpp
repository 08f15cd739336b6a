// `headcount sample` as its users meet it: text, JSON, caches, and what it says to bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/base/text.h"
#include "train/runs_of_a_suite.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Index kContext = 16;  // of TrainFolder's model

// One small run, which no test changes.
class SampleCommand : public RunsOfASuite<SampleCommand> {
 public:
  static constexpr const char* kCommand = "sample";
  static void prepare() { train("run", ""); }
};

TEST_F(SampleCommand, PrintsThePromptAndItsContinuation) {
  const std::string out = text("--from run --tokens 20", {"--prompt", "16 is"});
  EXPECT_TRUE(out.starts_with("16 is")) << out;
  EXPECT_EQ(out.size(), 5u + 20u + 1u);  // and a line break at the end
  EXPECT_EQ(out.find_first_not_of(folder_->contents("text.txt")), std::string::npos);
}

TEST_F(SampleCommand, WithoutPromptContinuesALineBreak) {
  EXPECT_EQ("\n" + text("--from run --tokens 20"),
            text("--from run --tokens 20", {"--prompt", "\n"}));
}

TEST_F(SampleCommand, WithJsonPrintsOneObject) {
  const json result = object("--from run --tokens 12 --prompt 16");
  std::set<std::string> keys;
  for (const auto& [key, value] : result.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"text", "tokens", "ended_by", "tokens_per_second",
                                         "prefill_ms", "cache_bytes_per_token", "cache_bytes"}));
  EXPECT_EQ(result.at("text").get<std::string>().size(), 12u);
  EXPECT_EQ(result.at("tokens"), 12);
  EXPECT_GT(result.at("tokens_per_second").get<double>(), 0);
  EXPECT_GT(result.at("prefill_ms").get<double>(), 0);
  EXPECT_EQ(result.at("cache_bytes_per_token"), 2 * 16 * 4);  // k and v of width 16 in float32
  EXPECT_EQ(result.at("cache_bytes"), 2 * 16 * 4 * kContext);
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

TEST_F(SampleCommand, RepeatsATextByItsSeed) {
  const std::string first = text("--from run --tokens 40 --seed 5");
  EXPECT_EQ(text("--from run --tokens 40 --seed 5 --threads 2"), first);
  EXPECT_NE(text("--from run --tokens 40 --seed 6"), first);
}

TEST_F(SampleCommand, WithoutCacheHasNoCacheBytes) {
  const json result = object("--from run --tokens 5 --cache off");
  EXPECT_EQ(result.at("cache_bytes"), 0);
  EXPECT_EQ(result.at("cache_bytes_per_token"), 0);
}

TEST_F(SampleCommand, SlidesOrStopsAtTheEndOfTheContext) {
  const std::string flags = "--from run --tokens 60 --prompt 16 --at-context ";
  const std::string sliding = object(flags + "slide").at("text");
  EXPECT_EQ(sliding.size(), 60u);
  const json stopped = object(flags + "stop");
  // The last character comes from a full context.
  EXPECT_EQ(stopped.at("tokens"), kContext - 2 + 1);
  EXPECT_EQ(stopped.at("text"), sliding.substr(0, kContext - 2 + 1));
}

TEST_F(SampleCommand, RepeatsOnePromptInSeveralTexts) {
  const std::string flags = "--from run --tokens 30 --prompt 16";
  const json result = object(flags + " --repeat 3"), single = object(flags);
  const auto texts = result.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 3u);
  for (const std::string& one : texts) EXPECT_EQ(one.size(), 30u);
  EXPECT_EQ(json(texts[0]), result.at("text"));
  EXPECT_EQ(json(texts[0]), single.at("text"));
  EXPECT_EQ(result.at("tokens"), 30);
  EXPECT_EQ(result.at("cache_bytes"), 3 * single.at("cache_bytes").get<int>());
  EXPECT_EQ(result.at("cache_bytes_per_token"), single.at("cache_bytes_per_token"));
  EXPECT_EQ(text(flags + " --repeat 3"),
            "--- 1\n16" + texts[0] + "\n--- 2\n16" + texts[1] + "\n--- 3\n16" + texts[2] + "\n");
}

TEST_F(SampleCommand, EndsATextWithAStopString) {
  const std::string flags = "--from run --tokens 30 --repeat 2 --prompt 16";
  const auto whole = object(flags).at("texts").get<std::vector<std::string>>();
  const std::string stop = whole[0].substr(7, 4);  // the second text has it nowhere
  const std::string ended = whole[0].substr(0, whole[0].find(stop) + 4);
  ASSERT_EQ(whole[1].find(stop), std::string::npos);
  const json result = object(flags, {"--stop", stop, "--stop", whole[1].substr(20)});
  EXPECT_EQ(result.at("texts"), json({ended, whole[1]}));
  EXPECT_EQ(result.at("tokens"), ended.size());
  EXPECT_EQ(result.at("ended_by"), "stop");
  EXPECT_EQ(result.at("texts_ended_by"), json({"stop", "stop"}));
  EXPECT_EQ(text("--from run --tokens 30 --prompt 16", {"--stop", stop}), "16" + ended + "\n");
  EXPECT_EQ(object("--from run --tokens 3").at("ended_by"), "tokens");
  EXPECT_EQ(object("--from run --tokens 30 --at-context stop").at("ended_by"), "context");
  expect_refusal(kUsage, "--from run --stop=", {"--stop is empty"});
  expect_refusal(kData, "--from run --stop ~", {"--stop", "lacks '~'"});
}

TEST_F(SampleCommand, TakesARunOrOneOfItsCheckpoints) {
  EXPECT_EQ(text("--from run/checkpoints/step-3 --tokens 20"), text("--from run --tokens 20"));
}

TEST_F(SampleCommand, RefusesPromptsThatTheModelCannotRead) {
  const auto refuses = [](int code, const std::string& prompt,
                          const std::vector<std::string>& names) {
    expect_refusal(code, "--from run --tokens 5", names, {"--prompt", prompt});
  };
  refuses(kUsage, "", {"--prompt", "empty"});
  refuses(kData, "16 Käse", {"--prompt", "'K' (U+004B)", "'ä' (U+00E4)", "vocabulary"});
  refuses(kData, "16\t", {"--prompt", "U+0009"});
  refuses(kData, "16 caf\xe9", {"--prompt", "UTF-8", "offset 6"});
}

TEST_F(SampleCommand, RefusesPromptsLongerThanAContextThatMayNotSlide) {
  expect_refusal(kUsage, "--from run --at-context stop",
                 {"--prompt", "17", "context holds 16", "--at-context slide"},
                 {"--prompt", "400 is a square.\n"});
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
    headcount::expect_refusal(folder_->train("--init begun --out next"), kData,
                              {"--init: " + why + first}, flags);
  }
}

}  // namespace
}  // namespace headcount
