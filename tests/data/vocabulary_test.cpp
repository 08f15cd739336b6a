#include "data/vocabulary.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(Vocabulary, NumbersCharactersByTheirOrder) {
  for (const auto& [symbols, tokens] : {std::pair(U"abn", std::vector<std::int32_t>{1, 0, 2}),
                                        std::pair(U"nab", std::vector<std::int32_t>{2, 1, 0})}) {
    const Vocabulary vocabulary{std::u32string(symbols)};
    EXPECT_EQ(vocabulary.size(), 3);
    EXPECT_EQ(vocabulary.encode(U"ban"), tokens);
    EXPECT_EQ(vocabulary.decode(tokens), "ban");
  }
}

TEST(Vocabulary, RoundTripsAnyText) {
  EXPECT_TRUE(rc::check([] {
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
  }));
}

TEST(Vocabulary, NamesUnknownCharactersEachOnce) {
  EXPECT_EQ(message_of<DataError>([&] { Vocabulary(U"ab").encode(U"a\u00E9z\u00E9b\n"); }),
            "the model's vocabulary of 2 characters lacks U+000A, 'z' (U+007A), "
            "'\u00E9' (U+00E9); give a text without them");
}

TEST(Vocabulary, KeepsTheListOfUnknownCharactersShort) {
  std::u32string text;
  for (char32_t symbol = 0x4E00; symbol < 0x4E00 + 100; ++symbol) text += symbol;
  EXPECT_NE(message_of<DataError>([&] { Vocabulary(U"ab").encode(text); }).find(" and 80 more;"),
            std::string::npos);
}

TEST(Vocabulary, RefusesTokensThatItDoesNotHave) {
  EXPECT_THROW(Vocabulary(U"ab").decode(std::vector<std::int32_t>{2}), DataError);
  EXPECT_THROW(Vocabulary(U"ab").decode(std::vector<std::int32_t>{-1}), DataError);
}

TEST(Vocabulary, RefusesASymbolThatComesTwice) { EXPECT_THROW(Vocabulary(U"aba"), DataError); }

TEST(Vocabulary, RefusesWhatIsNoUnicodeCharacter) {
  const std::u32string beyond = {U'a', char32_t{0x110000}}, last(1, char32_t{0xFFFFFFFF});
  for (const std::u32string& symbols : {beyond, last}) EXPECT_THROW(Vocabulary{symbols}, DataError);
}

}  // namespace
}  // namespace headcount
