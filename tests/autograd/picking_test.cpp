// Rows that an indexer picks, and what it learns from the weights that attention gives them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/any_size.h"
#include "autograd/evaluation.h"
#include "autograd/ops.h"

namespace headcount {
namespace {

using Values = std::vector<Real>;

Var random(Tape& tape, const std::string& name, const Shape& shape) {
  return tape.constant(shape, normal_values(name, 0, shape.size()));
}

// Score of a query for a row, as the formula has it.
double score(Var q, Var keys, Var weights, Index b, Index t, Index row) {
  const Shape s = q.shape();
  const Index rows = keys.shape()[1];
  double sum = 0;
  for (Index h = 0; h < s[2]; ++h) {
    double product = 0;
    for (Index c = 0; c < s[3]; ++c) {
      product +=
          static_cast<double>(
              q.value()[static_cast<std::size_t>(((b * s[1] + t) * s[2] + h) * s[3] + c)]) *
          static_cast<double>(keys.value()[static_cast<std::size_t>((b * rows + row) * s[3] + c)]);
    }
    sum +=
        static_cast<double>(weights.value()[static_cast<std::size_t>((b * s[1] + t) * s[2] + h)]) *
        std::max(0.0, product);
  }
  return sum;
}

TEST(PickedRowsOfAnIndexer, AreThoseWithTheGreatestScores) {
  EXPECT_TRUE(rc::check([] {
    const Index batch = any_size(1, 2), length = any_size(1, 150), heads = any_size(1, 5);
    const Index width = any_size(1, 6), tokens = any_size(1, 4), most = any_size(1, 20);
    const Index first = any_size(0, 1) * any_size(0, 9), window = any_size(0, 1) * any_size(1, 90);
    const Index rows = std::max<Index>(1, (first + length) / tokens);
    Tape tape;
    const Var q = random(tape, "q", {batch, length, heads, width});
    const Var keys = random(tape, "k", {batch, rows, 1, width});
    const Var weights = random(tape, "w", {batch, length, heads});
    const Picks picks = pick_rows(q, keys, weights,
                                  {.scale = Real{2},
                                   .most = most,
                                   .tokens = tokens,
                                   .first_position = first,
                                   .window = window});
    for (Index b = 0; b < batch; ++b) {
      for (Index t = 0; t < length; ++t) {
        const Index seen = std::min(rows, (first + t + 1) / tokens);
        const Index earliest = window > 0 ? std::max<Index>(0, seen - window) : 0;
        const Index count = std::min(seen - earliest, most);
        const std::int32_t* const list = picks.rows.of(b, t, length);
        RC_ASSERT(std::is_sorted(list, list + count));
        RC_ASSERT(std::all_of(list + count, list + most, [](auto row) { return row == -1; }));
        double least = std::numeric_limits<double>::infinity();
        std::vector<bool> picked(static_cast<std::size_t>(seen));
        for (Index j = 0; j < count; ++j) {
          const double wanted = 2 * score(q, keys, weights, b, t, list[j]);
          const auto got =
              picks.scores.value()[static_cast<std::size_t>((b * length + t) * most + j)];
          RC_ASSERT(std::abs(static_cast<double>(got) - wanted) < 1e-4);
          least = std::min(least, wanted);
          picked[static_cast<std::size_t>(list[j])] = true;
        }
        for (Index row = earliest; row < seen; ++row) {
          if (!picked[static_cast<std::size_t>(row)])
            RC_ASSERT(2 * score(q, keys, weights, b, t, row) < least + 1e-4);
        }
      }
    }
  }));
}

TEST(PickedRowsOfAnIndexer, OfEqualScoresAreTheEarlierOnes) {
  Tape tape;
  const Var q = tape.constant({1, 8, 1, 1}, Values(8, Real{1}));
  const Var weights = tape.constant({1, 8, 1}, Values(8, Real{1}));
  // Negative products give scores of 0, of either sign of zero.
  const Var keys = tape.constant({1, 8, 1, 1}, Values{-1, 2, -3, 2, -0.0, 1, 0.0, -2});
  const Picks picks = pick_rows(q, keys, weights, {.most = 4, .tokens = 1});
  const auto list = [&](Index t) {
    return std::vector<std::int32_t>(picks.rows.of(0, t, 8), picks.rows.of(0, t, 8) + 4);
  };
  using List = std::vector<std::int32_t>;
  EXPECT_EQ(list(1), (List{0, 1, -1, -1}));
  EXPECT_EQ(list(4), (List{0, 1, 2, 3}));
  EXPECT_EQ(list(7), (List{0, 1, 3, 5}));
}

// A cache of 5 tokens of which 8 were written holds tokens 3 to 7.
TEST(PickedRowsOfAnIndexer, CountFromTheEarliestTokenOfACache) {
  Tape tape;
  RowCache cache(2, 1, 1, 5, CacheType::real);
  const Values keys = {9, 9, 9, 1, 5, 1, 3, 1};
  for (Index token = 0; token < 8; ++token) {
    const Real of_second = -keys[static_cast<std::size_t>(token)];
    cache.write(0, token, &keys[static_cast<std::size_t>(token)]);
    cache.write(1, token, &of_second);
  }
  const Var q = tape.constant({2, 1, 1, 1}, Values{1, 1});
  const Var weights = tape.constant({2, 1, 1}, Values{1, 1});
  const auto picked = [&](Index most, Index b) {
    const Picks picks =
        pick_rows(q, Rows(cache, 8), weights, {.most = most, .first_position = 7, .window = 5});
    const std::int32_t* const list = picks.rows.of(b, 0, 1);
    return std::vector<std::int32_t>(list, list + most);
  };
  using List = std::vector<std::int32_t>;
  EXPECT_EQ(picked(3, 0), (List{0, 1, 3}));  // tokens 4, 6 and the earliest of three that are equal
  EXPECT_EQ(picked(3, 1), (List{0, 1, 2}));  // all scores are 0
  EXPECT_EQ(picked(6, 0), (List{0, 1, 2, 3, 4, -1}));
}

// Attention over one row of values e_r for each pooled row r gives the weights themselves.
TEST(PickedRowsOfAnIndexer, HaveTheirWeightsSummedOverTheHeads) {
  constexpr Index kLength = 130, kHeads = 3, kRows = 65, kMost = 4;
  Tape tape;
  const Var q = random(tape, "q", {2, kLength, kHeads, 5});
  const Var k = random(tape, "k", {2, kLength, 1, 5});
  const Var zeros = tape.constant({2, kLength, 1, kRows}, Values(2 * kLength * kRows));
  const Var pooled = random(tape, "p", {2, kRows, 1, 5});
  Values unit(2 * kRows * kRows);
  for (Index i = 0; i < 2 * kRows; ++i) unit[static_cast<std::size_t>(i * kRows + i % kRows)] = 1;
  const Picks picks =
      pick_rows(q, pooled, random(tape, "w", {2, kLength, kHeads}), {.most = kMost, .tokens = 2});
  Values weights(2 * kLength * kMost, Real{9});
  AttentionOptions options;
  options.pooled = {.keys = pooled,
                    .values = tape.constant({2, kRows, 1, kRows}, unit),
                    .tokens = 2,
                    .selection = Selection{picks.rows, weights.data()}};
  const Var y = attention(q, k, zeros, options);
  for (Index i = 0; i < 2 * kLength * kMost; ++i) {
    const std::int32_t row = picks.rows.rows[i];
    Real sum = 0;
    for (Index h = 0; row >= 0 && h < kHeads; ++h)
      sum += y.value()[static_cast<std::size_t>((i / kMost * kHeads + h) * kRows + row)];
    EXPECT_NEAR(static_cast<double>(weights[static_cast<std::size_t>(i)]), static_cast<double>(sum),
                1e-5);
  }
}

TEST(PickedRowsOfAnIndexer, AreReadFromACacheOfAnyType) {
  for (const CacheType type : {CacheType::real, CacheType::bf16, CacheType::f16, CacheType::int8}) {
    Tape tape;
    RowCache cache(2, 1, 4, 6, type);
    const Values numbers = normal_values("rows", 0, 2 * 6 * 4);
    for (Index row = 0; row < 12; ++row) cache.write(row / 6, row % 6, numbers.data() + row * 4);
    const std::vector<std::int32_t> picked = {1, 5, -1, 0, 2, 3};
    const Rows rows(cache, 6);
    const Var got = read_rows(tape, rows, {picked.data(), 3}, 1);
    ASSERT_EQ(got.shape(), (Shape{2, 3, 1, 4}));
    const Var all = read_rows(tape, rows);
    for (Index i = 0; i < 6; ++i) {
      const std::int32_t row = picked[static_cast<std::size_t>(i)];
      for (Index c = 0; c < 4; ++c) {
        const Real wanted =
            row < 0 ? 0 : all.value()[static_cast<std::size_t>((i / 3 * 6 + row) * 4 + c)];
        EXPECT_EQ(got.value()[static_cast<std::size_t>(i * 4 + c)], wanted);
      }
    }
  }
}

TEST(IndexLoss, IsZeroOnlyWhereScoresAreLogarithmsOfTheWeights) {
  Tape tape;
  const std::vector<std::int32_t> rows = {0, 2, 5, -1};
  const Values weights = {Real{0.1}, Real{0.3}, Real{0.2}, 0};
  const auto loss = [&](Real shift) {
    Values scores(4);
    for (std::size_t j = 0; j < 3; ++j) scores[j] = std::log(weights[j]) + 7;
    scores[1] += shift;
    return static_cast<double>(
        index_loss({tape.constant({1, 1, 4}, scores), {rows.data(), 4}}, weights.data()).item());
  };
  EXPECT_NEAR(loss(0), 0, 1e-6);
  EXPECT_GT(loss(Real{0.5}), 0.01);
  EXPECT_GT(loss(Real{-0.5}), 0.01);
}

TEST(DetachedValues, PassNoGradient) {
  Tape tape;
  const Var x = tape.leaf({2}, Values{2, 3});
  tape.backward(sum(x * tape.detached(x)));
  EXPECT_EQ(x.gradient()[0], 2);
  EXPECT_EQ(x.gradient()[1], 3);
}

}  // namespace
}  // namespace headcount
