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
