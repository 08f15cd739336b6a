// Memory of a layer: rows of the tape, or rows of a cache.
#include "nn/attention/memory.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "autograd/base/error.h"
#include "nn/test_layer.h"
#include "support/message_of.h"

namespace headcount {
namespace {

LayerCache cache_of(Index sequences, Index capacity) {
  return {{{"k", 2, 3}}, {.sequences = sequences, .capacity = capacity}};
}

TEST(Memory, OfAWholeTextHandsBackTheTapesOwnRows) {
  Tape tape;
  const Var x = tape.leaf({1, 2, 2, 3}, normal_values(1, 12));
  Memory memory;
  const Rows rows = memory.keep("k", x);
  EXPECT_EQ(rows.cache(), nullptr);
  EXPECT_EQ(rows.x().index, x.index);
  EXPECT_EQ(memory.first_position(), 0);
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

TEST(Memory, OfACacheRefusesRowsThatTheLayerDoesNotDeclare) {
  LayerCache cache = cache_of(1, 4);
  Tape tape;
  Memory memory(cache, 1);
  EXPECT_THROW(memory.keep("v", tape.constant({1, 1, 2, 3}, normal_values(1, 6))), ShapeError);
  EXPECT_THROW(memory.keep("k", tape.constant({1, 1, 3, 2}, normal_values(1, 6))), ShapeError);
  EXPECT_THROW(memory.keep("k", tape.constant({2, 1, 2, 3}, normal_values(1, 12))), ShapeError);
  EXPECT_THROW(memory.keep("k", tape.constant({1, 2, 2, 3}, normal_values(1, 12))), ShapeError)
      << "two tokens where one was appended";
}

TEST(Memory, OfACacheRefusesRowsWhoseGradientItWouldLose) {
  LayerCache cache = cache_of(1, 4);
  Tape tape;
  Memory memory(cache, 1);
  EXPECT_THROW(memory.keep("k", tape.leaf({1, 1, 2, 3}, normal_values(1, 6))), ShapeError);
  // Attention refuses queries that need a gradient.
  const Rows rows = memory.keep("k", tape.constant({1, 1, 2, 3}, normal_values(1, 6)));
  const Var q = tape.leaf({1, 1, 2, 3}, normal_values(2, 6));
  EXPECT_THROW(attention(q, rows, rows, {}), ShapeError);
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

TEST(Memory, OfALayerThatSharesReadsTheCacheOfTheEarlierOne) {
  LayerCache cache = cache_of(1, 4);
  const Values rows = normal_values(1, 12);
  cache.rows("k").write(0, 0, rows.data());
  cache.set_length(1);
  Tape tape;
  Memory first(cache, 1);
  first.keep("k", tape.constant({1, 1, 2, 3}, std::span(rows).last(6)));
  Memory second = Memory::sharing(first, first);
  EXPECT_EQ(second.first_position(), 1);
  const Rows shared = second.keep("k", []() -> Var { throw ShapeError("it makes no rows"); });
  EXPECT_EQ(shared.cache(), &cache.rows("k"));
  EXPECT_TRUE(std::ranges::equal(read_rows(tape, shared).value(), rows));
}

// A ring of 8 rows that has gone round, read by a window of 3 and by one that is wider than it.
TEST(Memory, OfACacheShowsTheNewestTokenItsWindowOnly) {
  constexpr Index kTokens = 13, kCapacity = 8;
  const Values k = normal_values(1, kTokens * 2 * 3), q_values = normal_values(2, 4 * 3);
  LayerCache cache = cache_of(1, kCapacity);
  for (Index t = 0; t < kTokens; ++t) cache.rows("k").write(0, t, k.data() + t * 6);
  for (const Index window : {1, 3, 7, 8, 20}) {
    Tape tape;
    const Index seen = std::min(window, kCapacity);
    const Var q = tape.constant({1, 1, 4, 3}, q_values);
    const Rows rows(cache.rows("k"), kTokens);
    const Var y = attention(q, rows, rows.columns(1, 2), {.window = window});
    const std::span<const Real> newest = std::span(k).last(static_cast<std::size_t>(seen * 6));
    const Var visible = tape.constant({1, seen, 2, 3}, newest);
    const Var expected = attention(q, visible, Rows(visible).columns(1, 2), {});
    EXPECT_LT(difference(expected.value(), y.value()), kRounding) << window;
  }
}

// Tokens [0, 3) and [3, 10) in a ring of 4 rows: the second chunk sees all, the ring keeps the
// last.
TEST(Memory, OfACacheShowsAChunkTheRowsThatItOverwrites) {
  const Values k = normal_values(1, 10 * 6);
  for (const CacheType type : {CacheType::real, CacheType::bf16, CacheType::int8}) {
    const auto cache_for = [&](Index capacity) {
      return LayerCache({{"k", 2, 3}}, {.sequences = 1, .capacity = capacity, .rounding = type});
    };
    LayerCache whole = cache_for(10), ring = cache_for(4);
    Tape tape;
    const auto keep = [&](Memory& memory, Index first, Index end) {
      const auto rows = std::span(k).subspan(static_cast<std::size_t>(first * 6));
      const Shape shape = {1, end - first, 2, 3};
      return memory.keep("k",
                         tape.constant(shape, rows.first(static_cast<std::size_t>(shape.size()))));
    };
    Memory all(whole, 10), before(ring, 3);
    const Var expected = read_rows(tape, keep(all, 0, 10));
    keep(before, 0, 3);
    ring.set_length(3);
    Memory after(ring, 7);
    const Rows rows = keep(after, 3, 10);
    EXPECT_TRUE(std::ranges::equal(read_rows(tape, rows).value(), expected.value()));
    const Var q = tape.constant({1, 7, 2, 3}, normal_values(2, 42));
    EXPECT_NO_THROW(attention(q, rows, rows, {.window = 4}));
    const Var held = read_rows(tape, {ring.rows("k"), 10});
    for (Index t = 6; t < 10; ++t) {
      for (Index i = 0; i < 6; ++i)
        EXPECT_EQ(held.value()[static_cast<std::size_t>((t - 6) * 6 + i)],
                  expected.value()[static_cast<std::size_t>(t * 6 + i)]);
    }
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

TEST(Memory, OfAWholeTextHasNoStateThatOutlivesIt) {
  EXPECT_TRUE(Memory().state("state", 2, 5).empty());
}

TEST(Memory, OfACacheHandsBackTheStateThatWasLeft) {
  LayerCache cache = state_cache(CacheType::int8);
  const std::span<Real> first = Memory(cache, 1).state("state", 2, 5);
  ASSERT_EQ(first.size(), 3u * 2 * 5);
  for (const Real x : first) EXPECT_EQ(x, 0);
  first[7] = Real{0.3};
  cache.set_length(1);
  EXPECT_EQ(Memory(cache, 1).state("state", 2, 5)[7], Real{0.3});
  cache.set_length(0);  // a new text
  EXPECT_EQ(Memory(cache, 1).state("state", 2, 5)[7], 0);
}

TEST(Memory, PutsInputsBehindThoseOfEarlierTokens) {
  const Values inputs = normal_values(0, 2 * 9 * 3);
  LayerCache cache({{.name = "x", .heads = 4, .width = 3, .per_sequence = true}},
                   {.sequences = 2, .capacity = 9});
  for (const Index text : {0, 1}) {
    Index first = 0;
    cache.set_length(0);
    for (const Index piece : {1, 2, 5, 1}) {
      Tape tape;
      const auto numbers = [&](Index begin, Index end) {  // of tokens before the first, 7
        Values some;
        for (Index b = 0; b < 2; ++b) {
          for (Index i = begin * 3; i < end * 3; ++i)
            some.push_back(i < 0 ? Real{7} : inputs[static_cast<std::size_t>(b * 27 + i)]);
        }
        return some;
      };
      const Var x = tape.constant({2, piece, 3}, numbers(first, first + piece));
      const Var all = Memory(cache, piece).after_earlier("x", x, 4, 0, 7);
      EXPECT_EQ(all.shape(), (Shape{2, 4 + piece, 3}));
      EXPECT_TRUE(std::ranges::equal(all.value(), numbers(first - 4, first + piece))) << text;
      EXPECT_EQ(Memory().after_earlier("x", x, 4).index, x.index) << "a whole text";
      cache.set_length(first += piece);
    }
  }
}

TEST(Memory, OfACacheRefusesAStateThatTheLayerDoesNotDeclare) {
  LayerCache cache = state_cache(CacheType::real);
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
