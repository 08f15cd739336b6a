#include "autograd/arena.h"

#include <gtest/gtest.h>
#if defined(__GLIBC__) && !defined(HEADCOUNT_PORTABLE)
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace headcount {
namespace {

bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kAlignment == 0;
}

#if defined(__GLIBC__) && !defined(HEADCOUNT_PORTABLE)
// Elsewhere, 0 bytes may be a null pointer, as memory that is exhausted is.
TEST(AlignedMemory, OfNothingIsAskedForAsOneLine) {
  EXPECT_GE(malloc_usable_size(allocate_aligned(0).get()), kAlignment);
}
#endif

TEST(Arena, GivesAlignedMemoryThatDoesNotOverlap) {
  Arena arena;
  std::vector<std::span<Real>> pieces;
  for (Index i = 1; i < 200; ++i) {
    const Index count = i * 97;
    pieces.push_back({arena.take_reals(count), static_cast<std::size_t>(count)});
    std::ranges::fill(pieces.back(), static_cast<Real>(i));
    EXPECT_TRUE(aligned(pieces.back().data()));
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_TRUE(
        std::ranges::all_of(pieces[i], [&](Real x) { return x == static_cast<Real>(i + 1); }));
  }
}

TEST(Arena, KeepsItsMemoryForTheNextEqualStep) {
  Arena arena;
  std::vector<void*> first, second;
  const auto step = [&](std::vector<void*>& places) {
    for (int i = 0; i < 100; ++i) places.push_back(arena.take(10000));
  };
  step(first);
  const std::size_t before = arena.heap_allocations();
  EXPECT_GT(before, 1u) << "one block would not show how several are used again";
  EXPECT_LE(arena.capacity(), 2 * 100 * (10000 + kAlignment));
  arena.reset();
  step(second);
  EXPECT_EQ(second, first);
  EXPECT_EQ(arena.heap_allocations(), before);
}

TEST(BufferPool, GivesTheSmallestOfWhatWasGivenBackThatFits) {
  BufferPool pool;
  Real* const large = pool.take(5000);
  Real* const small = pool.take(1000);
  EXPECT_NE(large, small);
  pool.give_back(large);
  pool.give_back(small);
  EXPECT_EQ(pool.take(900), small);
  EXPECT_EQ(pool.take(1001), large);
  EXPECT_EQ(pool.heap_allocations(), 2u);
  EXPECT_GE(pool.capacity(), 6000 * sizeof(Real));
  EXPECT_LT(pool.capacity(), 6000 * sizeof(Real) + 2 * kAlignment);
  EXPECT_TRUE(aligned(large) && aligned(small));
}

}  // namespace
}  // namespace headcount
