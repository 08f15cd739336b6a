// `headcount attend` as its users meet it: maps for eyes and for programs.
#include <regex>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

class AttendCommand : public RunsOfASuite<AttendCommand> {
 public:
  static constexpr const char* kCommand = "attend";
  static void prepare() {
    train("run", "--layers 2");
    train("pattern", "--layers 2 --attention delta/mqa");
  }
};

TEST_F(AttendCommand, DrawsARowForEachCharacterOfEachHead) {
  const std::string out = text("--from run", {"--text", "4 is\n"});
  const std::vector<std::string> lines = lines_of(out);
  ASSERT_EQ(lines.size(), 2 + 2u * 8 + 1) << out;
  // The first character sees itself alone.
  expect_parts(out, {"0 ·, 0.03 ░, 0.1 ▒, 0.3 ▓, 0.6 █\nentropy: 0 if a query reads one key alone",
                     "\nlayer 1 (mha), head 1\n  1\n  4 is↵  entropy, nats\n4 █      0.00\n"});
  EXPECT_TRUE(lines[9].starts_with("↵ ")) << lines[9];
  EXPECT_EQ(lines[10], "layer 1 (mha), head 2");
  EXPECT_EQ(lines[18],
            "2 more heads not shown: --layer and --head name one, --out FILE.svg draws all");
}

// A screen has the last rows of one head; a head that is named is shown whole.
TEST_F(AttendCommand, PrintsWhatFitsOnAScreen) {
  const std::vector<std::string> all = lines_of(call("--from run").out);
  EXPECT_LE(all.size(), 24u);
  expect_parts(all.back(), {"3 more heads not shown"});
  train("long", "--context 32");
  const std::vector<std::string> rows = lines_of(call("--from long --layer 1").out);
  EXPECT_LE(rows.size(), 24u);
  const std::string whole = call("--from long --layer 1 --head 2").out;
  EXPECT_EQ(lines_of(whole).size(), 2 + 3u + 32);
  expect_no_parts(whole, {"not shown"});
}

TEST_F(AttendCommand, NumbersEveryTenthColumnAndDrawsAnSvg) {
  const std::string out =
      text("--from run --layer 1 --head 2 --out map.svg", {"--text", "4 is 4 is 4 is"});
  EXPECT_EQ(lines_of(out)[3], "  1         11");
  const std::string svg = folder_->contents("map.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << svg;
  const std::regex square("<rect ");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), square), {}), 14 * 15 / 2)
      << "one for each pair";
  expect_parts(svg, {">layer 1, head 2<"});
}

TEST_F(AttendCommand, ShowsEachCharacterAsOneVisibleColumn) {
  // Two controls, marks that combine, turn the direction, are wide or no character, and an Arabic
  // letter, between characters that stay as they are.
  const std::string odd = "\x01\u009b\u0301\u202e\u4e2d\uffff\u0627", plain = "a<&é⠁↵Я ";
  std::string corpus;
  for (int i = 0; i < 40; ++i) corpus += odd + plain + "\n";
  folder_->file("odd.txt", corpus);
  train("odd", "--data odd.txt");
  const std::string out =
      text("--from odd --layer 1 --head 1 --out odd.svg", {"--text", odd + "\n" + plain});
  const std::string shown = "�������↵a<&é⠁↵Я ";
  const std::vector<std::string> lines = lines_of(out);
  EXPECT_EQ(lines[2],
            "� is a character that may not take one column: U+0001, U+009B, U+0301, U+0627, "
            "U+202E, U+4E2D, U+FFFF");
  EXPECT_EQ(lines[5], "  " + shown + "  entropy, nats");
  const std::string svg = folder_->contents("odd.svg");
  expect_no_parts(svg, {"\x01", "\u009b", "\u0301", "\u202e", "\u4e2d", "\uffff", "\u0627"});
  expect_parts(svg, {">�</text>", ">&lt;<", ">&amp;<", ">⠁<", ">↵<"});
}

TEST_F(AttendCommand, TakesTheBeginningOfTheRunsTextWithoutAnother) {
  const ProgramResult result = call("--from run --format json");
  const json of_run = json::parse(result.out);
  EXPECT_EQ(of_run["text"].get<std::string>().size(), 16u) << "the context";
  EXPECT_TRUE(result.err.starts_with("headcount: over the first 16 characters of ") &&
              result.err.ends_with("text.txt, validation part; --text names another text\n"))
      << result.err;
  EXPECT_EQ(of_run, object("--from run", {"--text", of_run["text"]}));
}

TEST_F(AttendCommand, HasAllWeightsAsJson) {
  const json all = object("--from run --text 9is");
  EXPECT_EQ(all["text"], "9is");
  ASSERT_EQ(all["layers"].size(), 2u);
  const json &layer = all["layers"][1], &head = layer["heads"][1];
  EXPECT_EQ(layer["attention"], "mha");
  EXPECT_EQ(head["head"], 2);
  EXPECT_EQ(head["entropy"].size(), 3u);
  for (std::size_t t = 0; t < 3; ++t) EXPECT_EQ(head["weights"][t].size(), t + 1);
  EXPECT_EQ(object("--from run --text 9is --cache-dtype f32"), all);
  EXPECT_NE(object("--from run --text 9is --cache-dtype int2"), all) << "keys of a rounded cache";
}

TEST_F(AttendCommand, SaysInOneLineWhichLayersHaveNoScores) {
  const std::vector<std::string> lines = lines_of(text("--from pattern --text 9is --head 1"));
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[2], "layer 1: delta has no scores, it keeps a state");
  EXPECT_EQ(lines[3], "layer 2 (mqa), head 1");
  EXPECT_EQ(object("--from pattern --text 9is")["layers"][0]["heads"], json::array());
}

}  // namespace
}  // namespace headcount
