#include "autograd/base/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/base/error.h"

namespace headcount {
namespace {

TEST(Formatted, HasRoomForTextOfAnyLength) {
  EXPECT_EQ(formatted("%s %.1f", "a", 0.25), "a 0.2");
  EXPECT_EQ(formatted("%s", ""), "");
  EXPECT_EQ(formatted("%.0f", std::numeric_limits<double>::max()).size(), 309u);
}

TEST(Quoted, ShowsNoByteThatMovesATerminalsCursor) {
  using namespace std::literals;
  EXPECT_EQ(quoted("Straße"), "'Straße'");
  EXPECT_EQ(quoted("a\n\x1b[0m\x7f\0"sv), "'a\\x0a\\x1b[0m\\x7f\\x00'");
  EXPECT_EQ(quoted("\xff\xc3|\xc2\x9b|\xe2\x80\xae"), "'\\xff\\xc3|\\xc2\\x9b|\\xe2\\x80\\xae'")
      << "not UTF-8, a control character beyond ASCII, right to left";
  EXPECT_EQ(shortened("a\tb"), "a\\x09b");
  EXPECT_EQ(printable("a\nb\r"), "a\nb\\x0d");
}

TEST(Quoted, CutsLongTextsBetweenCharacters) {
  const std::string a(199, 'a');
  EXPECT_EQ(headcount::quoted(a + "b"), "'" + a + "b'");
  EXPECT_EQ(headcount::quoted(a + "ßb"), "'" + a + "' and 3 more bytes");
  EXPECT_EQ(headcount::quoted(std::string(300, '\xbf')).size(),
            2 + 4 * 197 + std::string(" and 103 more bytes").size());
}

TEST(Letters, AreThoseOfEveryScriptAndNoBlanksSignsOrPunctuation) {
  for (const char32_t c : std::u32string_view(U"aZßéМӰ字ªｱᾳ\U0001d54f"))
    EXPECT_TRUE(is_letter(c)) << std::hex << std::uint32_t{c};
  for (const char32_t c : U"0 \n.-_[\u00a0«»¿×÷\u2009–“…\u3000。「！？\ufeff")
    EXPECT_FALSE(is_letter(c)) << std::hex << std::uint32_t{c};
}

TEST(Error, IsPrintable) {
  EXPECT_EQ(std::string(Error("{} is no text", std::string("\x1b\0[", 3)).what()),
            "\\x1b\\x00[ is no text");
}

const std::vector<std::string> kKnown = {"attention", "dim", "steps", "kv-heads", "heads"};

TEST(Nearest, IsTheWordWithFewestLettersEditedOrNoneIfThoseAreMany) {
  for (const auto& [typed, meant] : {std::pair{"atention", "attention"},
                                     {"attnetion", "attention"},
                                     {"dmi", "dim"},
                                     {"kvheads", "kv-heads"},
                                     {"head", "heads"},
                                     {"", ""},
                                     {"foo", ""},
                                     {"temperature", ""}})
    EXPECT_EQ(nearest(typed, kKnown), meant) << typed;
}

}  // namespace
}  // namespace headcount
