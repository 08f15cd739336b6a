#include "train/show/units.h"

#include <gtest/gtest.h>

#include "autograd/base/settings.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(TenthsText, HasADecimalOnlyWhereThereIsOne) {
  EXPECT_EQ(tenths_text(128.0 / 9), "14.2");
  EXPECT_EQ(tenths_text(304), "304");
  EXPECT_EQ(tenths_text(63.98), "64");
}

// So that no column has bytes beside a thousand times as many of them.
TEST(BinaryText, HasTheGreatestUnitOfWhichThereIsOne) {
  EXPECT_EQ(binary_text(1023), "1023 B");
  EXPECT_EQ(binary_text(16384), "16 KiB");
  EXPECT_EQ(binary_text(131072), "128 KiB");
  EXPECT_EQ(binary_text(4.5 * (1 << 30)), "4.5 GiB");
  EXPECT_EQ(decimal_text(99999), "99999");
}

TEST(BytesNamed, NeedTheirUnit) {
  EXPECT_EQ(memory_named("24GiB"), 24.0 * (1 << 30));
  EXPECT_EQ(memory_named("80 GB"), 8e10);
  EXPECT_EQ(memory_named("65536B"), 65536);
  EXPECT_EQ(memory_named("24gib"), 24.0 * (1 << 30));
  for (const char* const card : {"4090", "rtx4090", "RTX-4090"})
    EXPECT_EQ(memory_named(card), memory_named("rtx-4090")) << card;
  EXPECT_EQ(memory_named("H100"), memory_named("h100"));
  EXPECT_EQ(memory_named("a100-80gb"), memory_named("a100"));
  EXPECT_EQ(memory_named("v100-32GB"), 2 * memory_named("v100"));
  for (const char* const text : {"24", "24q", "GiB", "0GiB", ""}) {
    const std::string error = message_of<SettingError>([&] { memory_named(text); });
    const std::string begin =
        "`memory` must be a number of bytes with its unit, such as 24GiB or 80GB, or a card of "
        "b200, ";
    EXPECT_TRUE(error.starts_with(begin) && error.ends_with(", is '" + std::string(text) + "'"))
        << error;
  }
  EXPECT_EQ(message_of<SettingError>([] { memory_named("24G"); }),
            "`memory` 24G may be 24GiB or 24GB; write one of them");
}

}  // namespace
}  // namespace headcount
