#include "train/show/table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace headcount {
namespace {

struct Fruit {
  std::string name;
  std::optional<double> price;
  bool ripe = false;
};

const std::vector<Fruit> kFruits = {
    {"fig", 0.1, true}, {"red \"plum\"", {}, false}, {"", 12, true}};

std::vector<Column<Fruit>> columns() {
  return {{"name", "name", [](const Fruit& f) { return f.name; },
           [](const Fruit& f) { return f.name; }, true},
          {"price\na piece", "price",
           [](const Fruit& f) { return f.price ? std::to_string(int(*f.price)) : "-"; },
           [](const Fruit& f) { return f.price ? Json(*f.price) : Json(); }, false, 8},
          {"", "ripe", [](const Fruit& f) { return f.ripe ? "ripe" : ""; },
           [](const Fruit& f) { return f.ripe; }, true}};
}

// A table of one row, by its headings.
std::string table_of(std::vector<std::pair<std::string, nlohmann::ordered_json>> row,
                     Format format) {
  std::vector<Column<int>> columns;
  for (auto& [heading, value] : row) {
    const bool words = value.is_string();
    columns.push_back({heading, heading, {}, [value = value](int) { return value; }, words});
  }
  return text_table<int>(columns, {0}, format);
}

TEST(Table, IsMarkdownToo) {
  EXPECT_EQ(table_of({{"a\nname", "x|y*z"}, {"count", 20}}, Format::markdown),
            "|  a name   |  count  |\n"
            "|  ---      |   ---:  |\n"
            "|  x\\|y\\*z  |     20  |\n");
}

TEST(Table, AsTextHasNumbersAtTheRightAndHeadingsAboveThem) {
  EXPECT_EQ(text_table(columns(), kFruits),
            "               price\n"
            "name         a piece\n"
            "fig                0  ripe\n"
            "red \"plum\"         -\n"
            "                  12  ripe\n");
  EXPECT_EQ(table_of({{"café", "tea"}, {"é", 20}}, Format::text),
            "café   é\n"
            "tea   20\n")
      << "aligned by characters";
}

TEST(Wrapped, BreaksALineAtSpacesAndIndentsWhatFollows) {
  const std::string line = "twelve ± two lines of text";
  EXPECT_EQ(wrapped(line, 0), line);
  EXPECT_EQ(wrapped(line, 26), line) << "as wide";
  EXPECT_EQ(wrapped(line, 12), "twelve ± two\n  lines of\n  text") << "counted in characters";
  EXPECT_EQ(wrapped("a word that-is-longer than", 8), "a word\n  that-is-longer\n  than");
}

TEST(Table, AsCsvQuotesWhatIsNotOneWord) {
  EXPECT_EQ(csv_table(columns(), kFruits),
            "name,price,ripe\nfig,0.1,yes\n\"red \"\"plum\"\"\",,no\n\"\",12,yes\n");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a\r\nb"), "\"a\r\nb\"");
  EXPECT_EQ(csv_field(-0.0), "0");
  EXPECT_EQ(csv_field(1234567890123456789), "1234567890123456789");
}

TEST(Table, OfJsonHasARowForEachObjectOrALineForEachKeyOfOne) {
  const Json one = {{"loss", 0.5}, {"note", nullptr}, {"at", {1, 2}}, {"name", "a b"}};
  EXPECT_EQ(data_table(one, Format::csv), "loss,note,at,name\n0.5,,\"[1,2]\",\"a b\"\n");
  EXPECT_EQ(data_table(one, Format::text),
            "name  value\nloss    0.5\nnote\nat    [1,2]\nname    a b\n");
  const Json long_number = {{"bytes", 628.0 / 3}};  // as people read it, and as programs do
  const std::string read = data_table(long_number, Format::markdown);
  EXPECT_NE(read.find(" 209.333  |"), read.npos) << read;
  EXPECT_EQ(data_table(long_number, Format::csv), "bytes\n209.33333333333334\n");
  const Json two = Json::array({{{"name", "x"}, {"n", 1}}, {{"name", "y"}, {"n", 20}}});
  EXPECT_EQ(data_table(two, Format::csv), "name,n\nx,1\ny,20\n");
}

}  // namespace
}  // namespace headcount
