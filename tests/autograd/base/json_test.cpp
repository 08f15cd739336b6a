#include "autograd/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/message_of.h"

namespace headcount {
namespace {

using namespace std::literals;

std::string refusal(std::string_view text) {
  return message_of<DataError>([&] { parse_json(text); });
}

TEST(ParseJson, RefusesWhatFollowsNul) {
  EXPECT_EQ(refusal("{}\0{}"sv), "not valid JSON: NUL byte at offset 2");
  EXPECT_EQ(refusal("\0"sv), "not valid JSON: NUL byte at offset 0");
}

TEST(ParseJson, SaysWhereTheTextStopsBeingJsonWithoutItsRawBytes) {
  EXPECT_EQ(refusal("{\n \"a\": \x1b[31m}"),
            "not valid JSON: line 2, column 7: syntax error while parsing value - invalid literal; "
            "last read: '\"a\": <U+001B>'");
  EXPECT_EQ(refusal("[\"\x9b\"]").find('\x9b'), std::string::npos);
  EXPECT_EQ(refusal("[1e999]"), "not valid JSON: number overflow parsing '1e999'");
  EXPECT_LT(refusal("[\"" + std::string(1 << 20, 'a')).size(), 300u);
}

TEST(ParseJson, ReadsPythonsNumbersWhereTheyAreAllowed) {
  const auto parsed = [](const std::string& text) { return parse_json(text, NonFinite::allowed); };
  const nlohmann::json values = parsed(R"([NaN, Infinity,-Infinity , {"a\"": Infinity}, 1])");
  EXPECT_TRUE(std::isnan(values[0].get<double>()));
  EXPECT_EQ(values[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[3]["a\""], std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[4], 1);
  const std::string text = R"(["NaN", "\" Infinity \\", {"-Infinity": "\\"}])";
  EXPECT_EQ(parsed(text), parse_json(text)) << "within strings they are text";
  EXPECT_EQ(message_of<DataError>([&] { parsed("[Infinite]"); }).substr(0, 15), "not valid JSON:");
  const std::string wrong = message_of<DataError>([&] { parsed("[NaN, -Infinityx"); });
  EXPECT_TRUE(wrong.starts_with("not valid JSON: line 1, column 16: ")) << wrong;
  EXPECT_NE(wrong.find("last read: '-Infinityx';"), wrong.npos) << wrong;
  EXPECT_EQ(refusal("[NaN]").substr(0, 15), "not valid JSON:");
}

TEST(JsonText, WritesNumbersThatJsonLacksAsPythonDoes) {
  const nlohmann::json values = parse_json("[NaN, Infinity, -Infinity, 1.5]", NonFinite::allowed);
  EXPECT_EQ(json_text(values[0]), "NaN");
  EXPECT_EQ(json_text(values[1]), "Infinity");
  EXPECT_EQ(json_text(values[2]), "-Infinity");
  EXPECT_EQ(json_text(values[3]), "1.5");
  EXPECT_EQ(json_text(values), "[NaN,Infinity,-Infinity,1.5]");
  EXPECT_EQ(json_text({{"a\"", values[0]}, {"b", {}}}), "{\"a\\\"\":NaN,\"b\":null}");
}

TEST(WholeNumber, NamesTheKeyAndWhatStandsThere) {
  const nlohmann::json object = parse_json(
      R"({"a": 3, "b": Infinity, "c\u001b\u0000": "x", "d": 1e300, "e": -1})", NonFinite::allowed);
  const auto why = [&](const std::string& key) {
    return message_of<DataError>([&] { whole_number(object, key); });
  };
  EXPECT_EQ(whole_number(object, "a"), 3);
  EXPECT_EQ(why("b"), "'b' must be a whole number, is Infinity");
  EXPECT_EQ(why("c\x1b\0"s), "'c\\x1b\\x00' must be a whole number, is \"x\"");
  EXPECT_EQ(why("d"), "'d' must be a whole number, is 1e+300");
  EXPECT_EQ(why("e"), "'e' must be a whole number, is -1");
  EXPECT_EQ(why("f"), "'f' is missing");
}

TEST(ReadJson, NamesTheFileAndHidesTheParser) {
  const auto why = [](const char* text) {
    return message_of<DataError>([&] {
      read_json(text, "x.json",
                [](const nlohmann::json& json) { return json.at("a").get<std::string>(); });
    });
  };
  EXPECT_EQ(why("{"),
            "x.json: not valid JSON: line 1, column 2: syntax error while parsing object "
            "key - unexpected end of input; expected string literal");
  EXPECT_EQ(why("{\"a\": 1}"), "x.json: type must be string, but is number");
  EXPECT_EQ(why("{}"), "x.json: key 'a' not found");
}

}  // namespace
}  // namespace headcount
