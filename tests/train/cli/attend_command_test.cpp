// `headcount attend` as its users meet it: maps for eyes and for programs, and what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "train/runs_of_a_suite.h"

namespace headcount {
namespace {

using nlohmann::json;

class AttendCommand : public RunsOfASuite<AttendCommand> {
 public:
  static constexpr const char* kCommand = "attend";
  static void prepare() {
    train("run", "--layers 2");
    train("pattern", "--layers 2 --attention delta/mqa");
    train("state", "--attention delta");
  }

 protected:
  static std::string attend(const std::string& run, const std::string& text,
                            const std::string& flags = "") {
    return RunsOfASuite::text("--from " + run + " " + flags, {"--text", text});
  }
  static json maps(const std::string& run, const std::string& text, const std::string& flags = "") {
    return json::parse(attend(run, text, "--format json " + flags));
  }
};

TEST_F(AttendCommand, DrawsARowForEachCharacterOfEachHead) {
  const std::string out = attend("run", "4 is\n");
  const std::vector<std::string> lines = lines_of(out);
  ASSERT_EQ(lines.size(), 2 + 2u * 2 * 8) << out;
  EXPECT_TRUE(lines[0].ends_with("0 ·, 0.03 ░, 0.1 ▒, 0.3 ▓, 0.6 █")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("entropy: 0 if a query reads one key alone")) << lines[1];
  EXPECT_EQ(lines[2], "layer 1 (mha), head 1");
  EXPECT_EQ(lines[3], "  1");
  EXPECT_EQ(lines[4], "  4 is↵  entropy, nats");
  EXPECT_EQ(lines[5], "4 █      0.00") << "the first character sees itself alone";
  EXPECT_TRUE(lines[9].starts_with("↵ ")) << lines[9];
  EXPECT_EQ(lines[26], "layer 2 (mha), head 2");
}

TEST_F(AttendCommand, NumbersEveryTenthColumnAndDrawsAnSvg) {
  const std::string out = attend("run", "4 is 4 is 4 is", "--layer 1 --head 2 --out map.svg");
  EXPECT_EQ(lines_of(out)[3], "  1         11");
  const std::string svg = folder_->contents("map.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << svg;
  std::size_t squares = 0;
  for (auto at = svg.find("<rect "); at != svg.npos; at = svg.find("<rect ", at + 1)) ++squares;
  EXPECT_EQ(squares, 14u * 15 / 2) << "one for each pair";
  EXPECT_NE(svg.find(">layer 1, head 2<"), std::string::npos) << svg;
}

TEST_F(AttendCommand, ReadsKeysThroughARoundedCache) {
  const json exact = maps("run", "16 is a");
  EXPECT_EQ(maps("run", "16 is a", "--cache-dtype f32"), exact);
  EXPECT_NE(maps("run", "16 is a", "--cache-dtype int2"), exact);
}

TEST_F(AttendCommand, TakesTheBeginningOfTheRunsTextWithoutAnother) {
  const ProgramResult result = call("--from run --format json");
  const json of_run = json::parse(result.out);
  EXPECT_EQ(of_run["text"].get<std::string>().size(), 16u) << "the context";
  EXPECT_TRUE(result.err.starts_with("headcount: over the first 16 characters of ") &&
              result.err.ends_with("text.txt, validation part; --text names another text\n"))
      << result.err;
  EXPECT_EQ(of_run, maps("run", of_run["text"]));
}

TEST_F(AttendCommand, HasAllWeightsAsJson) {
  const json all = maps("run", "9 is");
  EXPECT_EQ(all["text"], "9 is");
  ASSERT_EQ(all["layers"].size(), 2u);
  for (const json& layer : all["layers"]) {
    EXPECT_EQ(layer["attention"], "mha");
    ASSERT_EQ(layer["heads"].size(), 2u);
    for (const json& head : layer["heads"]) {
      ASSERT_EQ(head["weights"].size(), 4u);
      ASSERT_EQ(head["entropy"].size(), 4u);
      for (std::size_t t = 0; t < 4; ++t) {
        const auto row = head["weights"][t].get<std::vector<double>>();
        ASSERT_EQ(row.size(), t + 1);
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-5);
      }
    }
  }
  EXPECT_EQ(all["layers"][1]["heads"][1]["head"], 2);
}

TEST_F(AttendCommand, SaysInOneLineWhichLayersHaveNoScores) {
  const std::string out = attend("pattern", "9 is", "--head 1");
  const std::vector<std::string> lines = lines_of(out);
  ASSERT_EQ(lines.size(), 10u) << out;
  EXPECT_EQ(lines[2], "layer 1: delta has no scores, it keeps a state");
  EXPECT_EQ(lines[3], "layer 2 (mqa), head 1");
  EXPECT_EQ(maps("pattern", "9 is")["layers"][0]["heads"], json::array());
  expect_refusal(kUsage, "--text 9 --from state", {"there is no map: delta has no scores"});
  expect_refusal(kUsage, "--text 9 --from pattern --layer 1", {"delta has no scores"});
}

}  // namespace
}  // namespace headcount
