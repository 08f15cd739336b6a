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

const std::vector<std::string> kKnown = {"attention", "dim", "steps", "kv-heads", "heads"};

TEST(Nearest, IsTheWordWithFewestLettersEdited) {
  for (const auto& [typed, meant] :
       {std::pair{"atention", "attention"}, std::pair{"attentions", "attention"},
        std::pair{"attnetion", "attention"}, std::pair{"dmi", "dim"}, std::pair{"step", "steps"},
        std::pair{"kvheads", "kv-heads"}, std::pair{"head", "heads"}}) {
    EXPECT_EQ(nearest(typed, kKnown), meant) << typed;
  }
}

TEST(Nearest, IsNoWordThatSharesLittle) {
  for (const char* typed : {"", "x", "foo", "temperature", "sd"})
    EXPECT_EQ(nearest(typed, kKnown), "") << typed;
}

}  // namespace
}  // namespace headcount
