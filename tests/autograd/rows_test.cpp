// Rows that an indexer picks, and what it learns from the weights that attention gives them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/evaluation.h"
#include "autograd/ops.h"

namespace headcount {
namespace {

using Values = std::vector<Real>;

Var random(Tape& tape, const std::string& name, const Shape& shape) {
  return tape.constant(shape, normal_values(name, 0, shape.size()));
}

TEST(PickedRowsOfAnIndexer, OfEqualScoresAreTheEarlierOnes) {
  Tape tape;
  const Values ones(8, Real{1}), scores = {0, 2, -0.0, 2, 0, 1, 0, -0.0};
  const Picks picks =
      pick_rows(tape.constant({1, 8, 1, 1}, ones), tape.constant({1, 8, 1, 1}, scores),
                tape.constant({1, 8, 1}, ones), 1, {.most = 4});
  const auto list = [&](Index t) {
    const std::int32_t* const rows = picks.picked.of(0, t, 8);
    return std::vector<std::int32_t>(rows, rows + 4);
  };
  using List = std::vector<std::int32_t>;
  EXPECT_EQ(list(1), (List{0, 1, -1, -1}));
  EXPECT_EQ(list(4), (List{0, 1, 2, 3}));
  EXPECT_EQ(list(7), (List{0, 1, 3, 5}));
  EXPECT_EQ(Values(picks.scores.value().begin() + 28, picks.scores.value().end()),
            (Values{0, 2, 2, 1}));
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
  const PickedRows picks =
      pick_rows(random(tape, "i", {2, kLength, 2, 5}), pooled, random(tape, "w", {2, kLength, 2}),
                1, {.most = kMost, .tokens = 2})
          .picked;
  Values weights(2 * kLength * kMost, Real{9});
  AttentionOptions options;
  options.pooled = {.keys = pooled,
                    .values = tape.constant({2, kRows, 1, kRows}, unit),
                    .tokens = 2,
                    .picked = PickedRows{picks.rows, kMost, weights.data()}};
  const Var y = attention(q, k, zeros, options);
  for (Index i = 0; i < 2 * kLength * kMost; ++i) {
    const std::int32_t row = picks.rows[i];
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
    const Var got = read_rows(tape, rows, {picked.data(), 3});
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
  Values weights = {Real{0.1}, Real{0.3}, Real{0.2}, 0};
  const auto loss = [&](Real shift) {
    Values scores(4, Real{9});  // that of no row does not count
    for (std::size_t j = 0; j < 3; ++j) scores[j] = std::log(weights[j]) + 7;
    scores[1] += shift;
    return static_cast<double>(
        index_loss({{rows.data(), 4, weights.data()}, tape.constant({1, 1, 4}, scores)}).item());
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
