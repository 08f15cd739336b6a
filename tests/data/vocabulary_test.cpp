#include "data/vocabulary.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(Characters, ReadsLineEndsAndAByteOrderMarkAsUnixHasThemOrKeepsThem) {
  const std::string mark = "\uFEFF", text = mark + "\r\na\r\n\rb" + mark + "\r\r\n\n\r";
  for (const auto& [unix_newlines, read] :
       {std::pair(true, std::string("\na\n\nb\n\n\n\n")), std::pair(false, text)}) {
    const Characters characters = read_characters(text, "x", unix_newlines);
    EXPECT_EQ(encode_utf8(std::u32string(characters.points.begin(), characters.points.end())),
              read);
    const auto& [pairs, returns, marks] = characters.foreign;
    EXPECT_EQ(std::tuple(pairs, returns, marks), std::tuple(3, 3, 2));
  }
}

TEST(Characters, NamesTheOffsetOfWhatIsNoText) {
  const auto error_of = [](const std::string& bytes) {
    return message_of<DataError>([&] { read_characters(bytes, "text"); });
  };
  std::string start;  // characters of one to four bytes, many of each
  while (start.size() < 200'000) start += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::string at = std::to_string(start.size());
  const std::string not_utf8 =
      "'text' is not UTF-8: invalid byte at offset " + at + "; convert it, e.g. with iconv";
  for (const char* wrong : {"\xE9 au lait", "\xFF", "\xE2\x82", "\xF0\x9F\x98", "\x80"})
    EXPECT_EQ(error_of(start + wrong), not_utf8);
  EXPECT_EQ(error_of(start + std::string("\0\xFF", 2)),
            "'text' looks like a binary file: NUL byte at offset " + at + "; name a text file");
}

TEST(Vocabulary, NumbersCharactersByTheirOrder) {
  const Vocabulary vocabulary(U"nab");
  const std::vector<std::int32_t> tokens = {2, 1, 0};
  EXPECT_EQ(vocabulary.encode(U"ban"), tokens);
  EXPECT_EQ(vocabulary.decode(tokens), "ban");
}

RC_GTEST_PROP(Vocabulary, RoundTripsAnyText, ()) {
  const auto code_point = rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(1, 0x100),
                                         rc::gen::inRange<std::uint32_t>(0xE000, 0x110000));
  const auto points = *rc::gen::container<std::vector<std::uint32_t>>(code_point);
  const std::u32string text(points.begin(), points.end());
  Characters read = read_characters(encode_utf8(text), "x");
  const Vocabulary vocabulary = Vocabulary::of({read.points});
  RC_ASSERT(std::ranges::is_sorted(vocabulary.symbols()));
  vocabulary.encode(read.points);
  RC_ASSERT(read.points == vocabulary.encode(text));
  RC_ASSERT(vocabulary.decode(read.points) == encode_utf8(text));
}

TEST(Vocabulary, NamesUnknownCharactersEachOnceButNotMany) {
  const auto refusal = [](const std::u32string& text) {
    return message_of<DataError>([&] { Vocabulary(U"ab").encode(text); });
  };
  EXPECT_EQ(refusal(U"a\u00E9z\u00E9b\n"),
            "the model's vocabulary of 2 characters lacks U+000A, 'z' (U+007A), "
            "'\u00E9' (U+00E9); give a text without them");
  std::u32string text;
  for (char32_t symbol = 0x4E00; symbol < 0x4E00 + 100; ++symbol) text += symbol;
  EXPECT_NE(refusal(text).find(" and 80 more;"), std::string::npos);
}

TEST(Vocabulary, RefusesTokensAndSymbolsThatAreNone) {
  for (const std::int32_t token : {2, -1})
    EXPECT_THROW(Vocabulary(U"ab").decode(std::vector{token}), DataError);
  const std::u32string twice = U"aba", beyond = {U'a', char32_t{0x110000}}, last(1, ~char32_t{0});
  for (const std::u32string& symbols : {twice, beyond, last})
    EXPECT_THROW(Vocabulary{symbols}, DataError);
}

}  // namespace
}  // namespace headcount
