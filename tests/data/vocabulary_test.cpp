#include "data/vocabulary.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"

namespace headcount {
namespace {

TEST(Vocabulary, HoldsEachCharacterOnceInAscendingOrder) {
  const auto vocabulary = Vocabulary::from_text(U"banana \u00E9!");
  EXPECT_EQ(vocabulary.symbols(), U" !abn\u00E9");
  EXPECT_EQ(vocabulary.size(), 6);
  EXPECT_EQ(vocabulary, Vocabulary(U" !abn\u00E9"));
}

TEST(Vocabulary, NumbersCharactersByTheirOrder) {
  const Vocabulary vocabulary(U"abn");
  EXPECT_EQ(vocabulary.encode(U"ban"), (std::vector<std::int32_t>{1, 0, 2}));
  EXPECT_EQ(vocabulary.decode(std::vector<std::int32_t>{1, 0, 2}), "ban");
}

TEST(Vocabulary, RoundTripsAnyText) {
  EXPECT_TRUE(rc::check([] {
    const auto code_point = rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(1, 0x100),
                                           rc::gen::inRange<std::uint32_t>(0xE000, 0x110000));
    const auto points = *rc::gen::container<std::vector<std::uint32_t>>(code_point);
    const std::u32string text(points.begin(), points.end());
    const auto vocabulary = Vocabulary::from_text(text);
    RC_ASSERT(vocabulary.decode(vocabulary.encode(text)) == encode_utf8(text));
  }));
}

TEST(Vocabulary, NamesUnknownCharactersEachOnce) {
  try {
    Vocabulary(U"ab").encode(U"a\u00E9z\u00E9b\n");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the model's vocabulary of 2 characters lacks U+000A, 'z' (U+007A), "
              "'\u00E9' (U+00E9); give a text without them");
  }
}

TEST(Vocabulary, KeepsTheListOfUnknownCharactersShort) {
  std::u32string text;
  for (char32_t symbol = 0x4E00; symbol < 0x4E00 + 100; ++symbol) text += symbol;
  try {
    Vocabulary(U"ab").encode(text);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find(" and 80 more;"), std::string::npos) << error.what();
  }
}

TEST(Vocabulary, RefusesTokensThatItDoesNotHave) {
  EXPECT_THROW(Vocabulary(U"ab").decode(std::vector<std::int32_t>{2}), DataError);
  EXPECT_THROW(Vocabulary(U"ab").decode(std::vector<std::int32_t>{-1}), DataError);
}

TEST(Vocabulary, KeepsAnOrderThatItIsGiven) {
  const Vocabulary vocabulary(U"nab");
  EXPECT_EQ(vocabulary.encode(U"ban"), (std::vector<std::int32_t>{2, 1, 0}));
  EXPECT_EQ(vocabulary.decode(std::vector<std::int32_t>{0, 1, 2}), "nab");
}

TEST(Vocabulary, RefusesASymbolThatComesTwice) { EXPECT_THROW(Vocabulary(U"aba"), DataError); }

TEST(Vocabulary, RefusesWhatIsNoUnicodeCharacter) {
  const std::u32string beyond = {U'a', char32_t{0x110000}}, last(1, char32_t{0xFFFFFFFF});
  for (const std::u32string& symbols : {beyond, last}) {
    EXPECT_THROW(Vocabulary{symbols}, DataError);
    EXPECT_THROW(Vocabulary::from_text(symbols), DataError);
  }
}

}  // namespace
}  // namespace headcount
