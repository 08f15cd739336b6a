#include <gtest/gtest.h>

#include <limits>

#include "autograd/base/text.h"

namespace headcount {
namespace {

TEST(Formatted, HasRoomForTextOfAnyLength) {
  EXPECT_EQ(formatted("%s %.1f", "a", 0.25), "a 0.2");
  EXPECT_EQ(formatted("%s", ""), "");
  EXPECT_EQ(formatted("%.0f", std::numeric_limits<double>::max()).size(), 309u);
}

}  // namespace
}  // namespace headcount
