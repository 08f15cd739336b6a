#include <gtest/gtest.h>

#include <vector>

#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

TEST(PickedRowsOfACache, AreReadInAnyType) {
  for (const CacheTypeRow& type : cache_types()) {
    Tape tape;
    RowCache cache(2, 1, 4, 6, type.type);
    const Values numbers = normal_values("rows", 0, 2 * 6 * 4);
    for (Index row = 0; row < 12; ++row) cache.write(row / 6, row % 6, numbers.data() + row * 4);
    const std::vector<std::int32_t> picked = {1, 5, -1, 0, 2, 3};
    const Rows rows(cache, 6);
    const Var got = read_rows(tape, rows, {picked.data(), 3});
    ASSERT_EQ(got.shape(), (Shape{2, 3, 1, 4}));
    const Var all = read_rows(tape, rows);
    for (Index i = 0; i < 6 * 4; ++i) {
      const Index row = picked[static_cast<std::size_t>(i / 4)];
      const auto at = static_cast<std::size_t>((i / 12 * 6 + row) * 4 + i % 4);
      EXPECT_EQ(got.value()[static_cast<std::size_t>(i)], row < 0 ? 0 : all.value()[at]);
    }
  }
}

TEST(Reshape, KeepsTheElementsAndTheMemory) {
  Tape tape;
  const Var x = tape.constant({4, 6}, normal_values("x", 0, 24)), y = reshape(x, {2, 3, 4});
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(y.value().data(), x.value().data());
}

}  // namespace
}  // namespace headcount
