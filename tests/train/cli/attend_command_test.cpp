// `headcount attend` as its users meet it: maps for eyes and for programs, and what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
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
  static ProgramResult attend(const std::string& run, const std::string& text,
                              const std::string& flags = "") {
    return call("--from " + run + " " + flags, {"--text", text});
  }
};

TEST_F(AttendCommand, DrawsARowForEachCharacterOfEachHead) {
  const ProgramResult result = attend("run", "4 is\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2 + 2u * 2 * 8) << result.out;
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
  const ProgramResult result = attend("run", "4 is 4 is 4 is", "--layer 1 --head 2 --out map.svg");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_of(result.out)[3], "  1         11");
  const std::string svg = folder_->contents("map.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << svg;
  std::size_t squares = 0;
  for (auto at = svg.find("<rect "); at != svg.npos; at = svg.find("<rect ", at + 1)) ++squares;
  EXPECT_EQ(squares, 14u * 15 / 2) << "one for each pair";
  EXPECT_NE(svg.find(">layer 1, head 2<"), std::string::npos) << svg;
}

TEST_F(AttendCommand, ReadsKeysThroughARoundedCache) {
  const std::string exact = attend("run", "16 is a", "--format json").out;
  EXPECT_EQ(attend("run", "16 is a", "--format json --cache-dtype f32").out, exact);
  EXPECT_NE(attend("run", "16 is a", "--format json --cache-dtype int2").out, exact);
  for (const auto& [flags, said] :
       {std::pair{"--cache-dtype int4 --cache-recent 2", "--cache-recent does not apply to maps"},
        {"--cache-dtype latent=int4", "--cache-dtype rounds 'latent'"},
        {"--cache-dtype int5", "--cache-dtype must be one of"}})
    headcount::expect_refusal(attend("run", "16 is a", flags), kUsage, {said}, flags);
}

TEST_F(AttendCommand, TakesTheBeginningOfTheRunsTextWithoutAnother) {
  const ProgramResult result = call("--from run --format json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json maps = json::parse(result.out);
  EXPECT_EQ(maps["text"].get<std::string>().size(), 16u) << "the context";
  EXPECT_TRUE(result.err.starts_with("headcount: over the first 16 characters of ") &&
              result.err.ends_with("text.txt, validation part; --text names another text\n"))
      << result.err;
  const std::string same = attend("run", maps["text"], "--format json").out;
  EXPECT_EQ(result.out, same);
}

TEST_F(AttendCommand, HasAllWeightsAsJson) {
  const ProgramResult result = attend("run", "9 is", "--format json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json maps = json::parse(result.out);
  EXPECT_EQ(maps["text"], "9 is");
  ASSERT_EQ(maps["layers"].size(), 2u);
  for (const json& layer : maps["layers"]) {
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
  EXPECT_EQ(maps["layers"][1]["heads"][1]["head"], 2);
}

TEST_F(AttendCommand, SaysInOneLineWhichLayersHaveNoScores) {
  const ProgramResult result = attend("pattern", "9 is", "--head 1");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 10u) << result.out;
  EXPECT_EQ(lines[2], "layer 1: delta has no scores, it keeps a state");
  EXPECT_EQ(lines[3], "layer 2 (mqa), head 1");
  EXPECT_EQ(json::parse(attend("pattern", "9 is", "--format json").out)["layers"][0]["heads"],
            json::array());
  headcount::expect_refusal(attend("state", "9 is"), 2, {"there is no map: delta has no scores"},
                            "delta");
  headcount::expect_refusal(attend("pattern", "9 is", "--layer 1"), 2, {"delta has no scores"},
                            "layer 1");
}

TEST_F(AttendCommand, RefusesWhatItCannotShow) {
  headcount::expect_refusal(attend("run", ""), 2, {"--text is empty"}, "no text");
  headcount::expect_refusal(attend("run", "4 is a square. 16"), 2,
                            {"--text has 17 characters, the context holds 16"}, "long");
  headcount::expect_refusal(attend("run", "9 X"), 3, {"--text: ", "'X'"}, "unknown");
  headcount::expect_refusal(attend("run", "9", "--layer 3"), 2,
                            {"--layer 3: the model has 2 layers"}, "layer");
  headcount::expect_refusal(attend("run", "9", "--head 3"), 2, {"--head 3: layer 1 has 2 heads"},
                            "head");
  const std::string checkpoint = "run/checkpoints/" + folder_->contents("run/checkpoints/latest");
  headcount::expect_refusal(call("--from " + checkpoint), 2, {"--text is missing"}, "checkpoint");
  headcount::expect_refusal(attend("nowhere", "9"), 3, {"'nowhere' is no run folder"}, "folder");
  headcount::expect_refusal(folder_->headcount("attend --text 9"), 2, {"--from is missing"},
                            "from");
}

}  // namespace
}  // namespace headcount
