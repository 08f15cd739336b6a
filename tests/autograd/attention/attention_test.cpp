// programs: autograd in_double
// What attention reads of caches and does not hide; composed_test.cpp has its values.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/any_size.h"
#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

constexpr double kAttentionTolerance = sizeof(Real) == 8 ? 1e-12 : 2e-5;

// Caches with more keys than one task takes, and some that began again from their first slot.
TEST(Attention, OfOneTokenReadsTheRowsOfACacheAsThoseOfATape) {
  EXPECT_TRUE(rc::check([] {
    const auto one_of = [](Index n) { return any_size(1, n) == 1; };
    const Index sequences = any_size(1, 2), kv_heads = any_size(1, 3), width = any_size(1, 9);
    const Index heads = kv_heads * any_size(1, 3);
    const Index capacity = one_of(4) ? any_size(500, 900) : any_size(1, 70);
    const Index tokens = any_size(1, 2 * capacity);
    RowCache rows(sequences, kv_heads, width, capacity, CacheType::real);
    RowCache gates(sequences, heads, 1, capacity, CacheType::real);
    for (Index i = 0; i < sequences * tokens; ++i) {
      const auto stream = static_cast<std::uint32_t>(i);
      rows.write(i / tokens, i % tokens, normal_values(stream, kv_heads * width).data());
      Values gate = normal_values("gates", stream, heads);
      for (Real& g : gate) g = Real{-0.1} * std::abs(g);
      gates.write(i / tokens, i % tokens, gate.data());
    }
    Tape tape;
    const Shape shape = {sequences, 1, heads, width};
    const Var q = tape.constant(shape, normal_values("q", 0, shape.size()));
    const Rows cached(rows, tokens), cached_gates(gates, tokens);
    const Rows read = read_rows(tape, cached), read_gates = read_rows(tape, cached_gates);
    AttentionOptions options = {.scale = Real{0.5}};
    if (one_of(2)) options.window = any_size(1, capacity);
    if (one_of(2)) options.cap = 3;
    if (one_of(2)) options.sinks = tape.constant({heads}, normal_values("sinks", 0, heads));
    const bool forgets = one_of(2);
    options.log_gates = forgets ? &cached_gates : nullptr;
    const Var y = attention(q, cached, cached.columns(width / 2, width - width / 2), options);
    options.log_gates = forgets ? &read_gates : nullptr;
    const Var in_tiles = attention(q, read, read.columns(width / 2, width - width / 2), options);
    RC_ASSERT(difference(y.value(), in_tiles.value()) < kAttentionTolerance);
  }));
}

TEST(Attention, DoesNotHideANaN) {
  for (const Index length : {3, 64}) {
    Tape tape;
    const Shape shape = {1, length, 1, 4};
    const auto input = [&](const Values& values) { return tape.constant(shape, values); };
    Values k = normal_values("k", 0, shape.size());
    k[1] = std::numeric_limits<Real>::quiet_NaN();
    const Var q = input(normal_values("q", 0, shape.size()));
    const Var y = attention(q, input(k), input(normal_values("v", 0, shape.size())), {});
    EXPECT_TRUE(std::ranges::all_of(y.value(), [](Real x) { return std::isnan(x); })) << length;
  }
}

}  // namespace
}  // namespace headcount
