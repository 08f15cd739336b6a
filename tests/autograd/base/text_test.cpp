#include "autograd/base/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace headcount {
namespace {

TEST(Formatted, HasRoomForTextOfAnyLength) {
  EXPECT_EQ(formatted("%s %.1f", "a", 0.25), "a 0.2");
  EXPECT_EQ(formatted("%s", ""), "");
  EXPECT_EQ(formatted("%.0f", std::numeric_limits<double>::max()).size(), 309u);
}

// In UTF-8 U+009B, which begins a terminal's commands as ESC [ does, is 0xc2 0x9b.
TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2J\x7f\n\xc2\x9b"), "a\\x1b[2J\\x7f\\x0a\\x9b");
  EXPECT_EQ(printable("\u00e9 \u00a0\xc2"), "\u00e9 \u00a0\xc2");
  EXPECT_EQ(quoted("a\t"), "'a\\x09'");
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
