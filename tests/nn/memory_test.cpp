// Memory of a layer: rows of the tape, or rows of a cache.
#include "nn/attention/memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "nn/test_layer.h"
#include "support/message_of.h"

namespace headcount {
namespace {

LayerCache cache_of(Index sequences, Index capacity) {
  return {{{"k", 2, 3}}, {.sequences = sequences, .capacity = capacity}};
}

TEST(Memory, OfAWholeTextHandsBackTheTapesOwnRowsAndNoState) {
  Tape tape;
  const Var x = tape.leaf({1, 2, 2, 3}, normal_values(1, 12));
  Memory memory;
  const Rows rows = memory.keep("k", x);
  EXPECT_EQ(rows.cache(), nullptr);
  EXPECT_EQ(rows.x().index, x.index);
  EXPECT_EQ(memory.first_position(), 0);
  EXPECT_TRUE(memory.state("state", 2, 5).empty()) << "nothing outlives the text";
}

TEST(Memory, OfACacheHandsBackTheRowsOfEarlierTokensToo) {
  LayerCache cache = cache_of(1, 4);
  const Values first = normal_values(1, 12), second = normal_values(2, 6);
  Tape tape;
  Memory(cache, 2).keep("k", tape.constant({1, 2, 2, 3}, first));
  EXPECT_EQ(cache.length(), 0) << "other layers may fail";
  cache.set_length(2);
  Memory later(cache, 1);
  EXPECT_EQ(later.first_position(), 2);
  const Var all = read_rows(tape, later.keep("k", tape.constant({1, 1, 2, 3}, second)));
  Values expected = first;
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(all.shape(), (Shape{1, 3, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(all.value(), expected));
}

TEST(Memory, OfACacheRefusesRowsThatTheLayerDoesNotDeclareOrWhoseGradientItWouldLose) {
  LayerCache cache = cache_of(1, 4);
  Tape tape;
  Memory memory(cache, 1);
  const auto constant = [&](const Shape& shape) {
    return tape.constant(shape, normal_values(1, shape.size()));
  };
  EXPECT_THROW(memory.keep("v", constant({1, 1, 2, 3})), ShapeError);
  for (const Shape& shape : {Shape{1, 1, 3, 2}, {2, 1, 2, 3}, {1, 2, 2, 3}})
    EXPECT_THROW(memory.keep("k", constant(shape)), ShapeError) << shape.text();
  EXPECT_THROW(memory.keep("k", tape.leaf({1, 1, 2, 3}, normal_values(1, 6))), ShapeError);
}

TEST(Memory, OfALayerThatSharesHandsBackWhatTheEarlierOneKept) {
  const auto none = []() -> Var { throw ShapeError("a layer that shares makes no rows"); };
  Tape tape;
  const Var x = tape.leaf({1, 2, 2, 3}, normal_values(1, 12));
  Memory first;
  first.keep("k", [&] { return x; });
  Memory second = Memory::sharing(first, first);
  Memory third = Memory::sharing(second, second);
  for (Memory* memory : {&second, &third}) {
    EXPECT_EQ(memory->keep("k", none).x().index, x.index);
    EXPECT_THROW(memory->keep("v", none), ShapeError);
    EXPECT_THROW(memory->keep("k", x), ShapeError) << "it has no rows of its own";
  }
}

// Only attention reads cached rows: it must trap a number that is not finite.
TEST(Memory, OfACacheLetsTheTrapSeeWhatDecodingComputes) {
  const Layer layer(small_config("mha"));
  LayerCache cache = make_cache(layer.config, {.capacity = 9});
  cache.rows("k").write(0, 0, normal_values(1, 8).data());
  cache.rows("v").write(0, 0, Values(8, std::numeric_limits<Real>::infinity()).data());
  cache.set_length(1);
  Tape tape(layer.store);
  tape.trap_non_finite(true);
  Memory memory(cache, 1);
  EXPECT_NE(message_of<NonFiniteError>([&] {
              layer.attention->forward(tape.constant({1, 1, 12}, normal_values(1, 12)), memory);
            }).find("op attention"),
            std::string::npos);
}

LayerCache state_cache(CacheType type) {
  return {{{"k", 2, 3}, {.name = "state", .heads = 2, .width = 5, .per_sequence = true}},
          {.sequences = 3, .capacity = 8, .rounding = type}};
}

TEST(Memory, OfACacheHandsBackTheStateThatWasLeftAndNoOther) {
  LayerCache cache = state_cache(CacheType::int8);
  const std::span<Real> first = Memory(cache, 1).state("state", 2, 5);
  ASSERT_EQ(first.size(), 3u * 2 * 5);
  for (const Real x : first) EXPECT_EQ(x, 0);
  first[7] = Real{0.3};
  cache.set_length(1);
  EXPECT_EQ(Memory(cache, 1).state("state", 2, 5)[7], Real{0.3});
  cache.set_length(0);  // a new text
  EXPECT_EQ(Memory(cache, 1).state("state", 2, 5)[7], 0);
  // What the layer does not declare.
  EXPECT_THROW(Memory(cache, 1).state("k", 2, 3), ShapeError);
  EXPECT_THROW(Memory(cache, 1).state("s", 2, 5), ShapeError);
  EXPECT_THROW(cache.rows("state"), ShapeError);
}

TEST(LayerCache, CopiesTheStateOfTheFirstSequence) {
  LayerCache one = state_cache(CacheType::f16), other = state_cache(CacheType::f16);
  std::ranges::copy(normal_values(1, 30), one.state("state").begin());
  other.copy_first(one);
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_EQ(other.state("state")[i], one.state("state")[i % 10]);
}

}  // namespace
}  // namespace headcount
