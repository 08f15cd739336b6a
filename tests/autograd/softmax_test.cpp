// Ops with a softmax, at scores of any size: the weights of a row add up to 1, forward and
// backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

constexpr double kRowTolerance = sizeof(Real) == 8 ? 1e-12 : 1e-5;
constexpr std::array<Real, 6> kSizes = {Real{1},   Real{1e2}, Real{1e4},
                                        Real{1e6}, Real{1e7}, Real{1e10}};

// Rows of `width` numbers of which every second is equal to the one before, so that the greatest
// score of a row is that of two.
Values in_pairs(Values x, Index width) {
  for (std::size_t i = 0, w = static_cast<std::size_t>(width); i < x.size(); ++i)
    if (i / w % 2 == 1) x[i] = x[i - w];
  return x;
}

double sum_of(std::span<const Real> x) { return std::accumulate(x.begin(), x.end(), 0.0); }

// With cotangents of 1, the gradients of the values add up to the number of queries.
TEST(SoftmaxOfAttention, SharesOutOneAtScoresOfAnySize) {
  using Extents = std::array<Index, 4>;  // length, heads, heads of keys, window
  for (const Extents& of : {Extents{1, 1, 1, 0}, {70, 2, 2, 0}, {150, 6, 2, 0}, {150, 3, 1, 9}}) {
    const Index length = of[0], heads = of[1], kv_heads = of[2], window = of[3];
    for (const Real size : kSizes) {
      SCOPED_TRACE(testing::Message() << length << " tokens, size " << size);
      constexpr Index kWidth = 5;
      const Index rows = heads * length;
      AttentionStats stats;
      stats.keeps_weights = true;
      Tape tape;
      const auto input = [&](Index of_heads, std::uint32_t stream) {
        const Shape shape = {1, length, of_heads, kWidth};
        return tape.leaf(
            shape, in_pairs(normal_values("softmax", stream, shape.size()), of_heads * kWidth));
      };
      const Var q = input(heads, 0), k = input(kv_heads, 1), v = input(kv_heads, 2);
      const Var y = attention(q, k, v, {.scale = size, .window = window, .stats = &stats});
      for (Index row = 0; row < rows; ++row)
        ASSERT_NEAR(sum_of(std::span(stats.weights).subspan(row * length, length)), 1,
                    kRowTolerance);
      tape.backward(y, Values(rows * kWidth, 1));
      EXPECT_NEAR(sum_of(v.gradient()) / static_cast<double>(rows * kWidth), 1, kRowTolerance);
      EXPECT_TRUE(std::isfinite(sum_of(q.gradient()) + sum_of(k.gradient())));
    }
  }
}

TEST(SoftmaxOfPooling, SharesOutOneAtScoresOfAnySize) {
  constexpr Index kBlock = 4, kBlocks = 5, kWidth = 6;
  const Shape shape = {1, kBlocks * kBlock, kWidth};
  const Values ones(static_cast<std::size_t>(shape.size()), 1);
  for (const Real size : kSizes) {
    Tape tape;
    const Var x = tape.leaf(shape, ones);
    const Var gates = tape.leaf(shape, in_pairs(normal_values("gates", 0, shape.size()), kWidth));
    const Var bias = tape.constant({kBlock, kWidth}, Values(kBlock * kWidth));
    const Var y = *pool_tokens(x, scale(gates, size), bias);
    tape.backward(y, Values(kBlocks * kWidth, 1));
    EXPECT_NEAR(sum_of(x.gradient()) / (kBlocks * kWidth), 1, kRowTolerance) << size;
  }
}

// Two classes share the greatest logit.
TEST(SoftmaxOfCrossEntropy, SharesOutOneAtLogitsOfAnySize) {
  for (const Real size : kSizes) {
    Tape tape;
    const Var logits = tape.leaf({1, 4}, Values{size * 50, -size, size * 50, 0});
    const Var loss = cross_entropy(logits, std::array<std::int32_t, 1>{2});
    EXPECT_NEAR(static_cast<double>(loss.item()), std::log(2.0), kRowTolerance) << size;
    tape.backward(loss);
    EXPECT_NEAR(sum_of(logits.gradient()), 0, kRowTolerance) << size;
    EXPECT_NEAR(static_cast<double>(logits.gradient()[2]), -0.5, kRowTolerance) << size;
  }
}

TEST(SoftmaxOfIndexLoss, SharesOutOneAtScoresOfAnySize) {
  const std::array<std::int32_t, 3> rows = {0, 1, 2};
  Values weights = {Real{0.5}, Real{0.5}, 0};
  for (const Real size : kSizes) {
    Tape tape;
    const Var scores = tape.leaf({1, 1, 3}, Values{size * 50, size * 50, -size});
    const Var loss = index_loss({{rows.data(), 3, weights.data()}, scores});
    EXPECT_NEAR(static_cast<double>(loss.item()), 0, kRowTolerance) << size;
    tape.backward(loss);
    for (const Real d : scores.gradient()) EXPECT_NEAR(static_cast<double>(d), 0, kRowTolerance);
  }
}

}  // namespace
}  // namespace headcount
