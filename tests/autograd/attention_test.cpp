// programs: autograd in_double
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/evaluation.h"
#include "autograd/ops.h"
#include "autograd/row_cache.h"

// What attention keeps to at the ends of its range; composed_attention_test.cpp has its values.
namespace headcount {
namespace {

constexpr double kAttentionTolerance = sizeof(Real) == 8 ? 1e-12 : 2e-5;

struct AttentionInputs {
  std::vector<Real> q, k, v;
  Shape q_shape, k_shape, v_shape;

  AttentionInputs(const Shape& query, const Shape& key, Index v_width)
      : q_shape(query), k_shape(key), v_shape(key.with_last(v_width)) {
    q = normal_values("q", 0, q_shape.size());
    k = normal_values("k", 0, k_shape.size());
    v = normal_values("v", 0, v_shape.size());
  }
  OpEvaluation evaluate(const AttentionOptions& options) const {
    const auto function = [&](Tape&, std::span<const Var> x) {
      return attention(x[0], x[1], x[2], options);
    };
    const std::vector<CheckedInput> inputs = {{q_shape, q}, {k_shape, k}, {v_shape, v}};
    return headcount::evaluate(function, inputs);
  }
};

// Elements [begin, end) of the second dimension of a [1, n, ...] tensor of `row` elements each.
std::vector<Real> rows(const std::vector<Real>& x, Index begin, Index end, Index row) {
  return {x.begin() + begin * row, x.begin() + end * row};
}

bool all_zero(const std::vector<Real>& x) {
  return !x.empty() && std::ranges::all_of(x, [](Real value) { return value == 0; });
}

// A sink as a key: one more column, which is 1 in every query and 0 in every other key.
TEST(Attention, OfASinkIsThatOfAKeyInFrontWhoseValueIsZero) {
  constexpr Index kLength = 70, kHeads = 2, kWidth = 3;
  const AttentionInputs inputs({1, kLength, kHeads, kWidth}, {1, kLength, kHeads, kWidth}, 2);
  const Real scale{0.4};
  const std::vector<Real> sinks = {Real{-1.5}, Real{2}};
  std::vector<Real> q, k, v(kHeads * 2);
  for (Index row = 0; row < kLength * kHeads; ++row) {
    q.insert(q.end(), inputs.q.begin() + row * kWidth, inputs.q.begin() + (row + 1) * kWidth);
    q.push_back(1);
  }
  for (const Real sink : sinks) k.insert(k.end(), {0, 0, 0, sink / scale});
  for (Index row = 0; row < kLength * kHeads; ++row) {
    k.insert(k.end(), inputs.k.begin() + row * kWidth, inputs.k.begin() + (row + 1) * kWidth);
    k.push_back(0);
  }
  v.insert(v.end(), inputs.v.begin(), inputs.v.end());
  Tape tape;
  AttentionStats in_front, stats;
  AttentionOptions options = {.scale = scale, .stats = &in_front};
  const Var expected = attention(tape.constant({1, kLength, kHeads, kWidth + 1}, q),
                                 tape.constant({1, kLength + 1, kHeads, kWidth + 1}, k),
                                 tape.constant({1, kLength + 1, kHeads, 2}, v), options);
  options.sinks = tape.constant({kHeads}, sinks);
  options.stats = &stats;
  const Var y =
      attention(tape.constant(inputs.q_shape, inputs.q), tape.constant(inputs.k_shape, inputs.k),
                tape.constant(inputs.v_shape, inputs.v), options);
  for (std::size_t i = 0; i < y.value().size(); ++i)
    EXPECT_NEAR(static_cast<double>(y.value()[i]), static_cast<double>(expected.value()[i]),
                kAttentionTolerance);
  EXPECT_EQ(stats.rows, in_front.rows);
  EXPECT_NEAR(stats.entropy_sum, in_front.entropy_sum, 100 * kAttentionTolerance);
}

// Caches with more keys than one task takes, and one that began again from its first slot.
TEST(Attention, OfTheNewestTokenStartsFromTheSinkToo) {
  constexpr Index kSequences = 2, kHeads = 4, kWidth = 8;
  for (const Index kv_heads : {1, 2, 4}) {
    for (const auto& [capacity, tokens] : {std::pair<Index, Index>{5, 3}, {700, 1100}}) {
      RowCache cache(kSequences, kv_heads, kWidth, capacity, CacheType::real);
      const std::vector<Real> all =
          normal_values("rows", 0, kSequences * tokens * kv_heads * kWidth);
      for (Index i = 0; i < kSequences * tokens; ++i)
        cache.write(i / tokens, i % tokens, all.data() + i * kv_heads * kWidth);
      Tape tape;
      const Shape shape = {kSequences, 1, kHeads, kWidth};
      const Var q = tape.constant(shape, normal_values("q", 0, shape.size()));
      const Rows rows(cache, tokens);
      AttentionOptions options = {.scale = Real{0.5}};
      const Var without = attention(q, rows, rows, options);
      options.sinks = tape.constant({kHeads}, std::vector<Real>{-3, 0, 4, 9});
      const Var newest = attention(q, rows, rows, options);
      const Var read = read_rows(tape, rows), in_tiles = attention(q, read, read, options);
      for (std::size_t i = 0; i < newest.value().size(); ++i)
        EXPECT_NEAR(static_cast<double>(newest.value()[i]),
                    static_cast<double>(in_tiles.value()[i]), kAttentionTolerance);
      EXPECT_NE(newest.value()[0], without.value()[0]);
    }
  }
}

// Lengths with whole and broken vectors and tiles: exp(-infinity) has its own way in each.
TEST(Attention, QueriesThatSeeNoKeyGiveZerosAndTakeNoGradient) {
  for (const Index length : {3, 8, 64, 70, 128, 150}) {
    for (const RowScale row_scale :
         {RowScale::one, RowScale::inverse_norm, RowScale::inverse_sqrt_length}) {
      const AttentionInputs inputs({1, length, 2, 4}, {1, length, 1, 4}, 3);
      const std::vector<std::uint8_t> mask(static_cast<std::size_t>(length), 0);
      const OpEvaluation nothing = inputs.evaluate({.row_scale = row_scale, .key_mask = mask});
      EXPECT_TRUE(all_zero(nothing.value)) << length;
      for (const auto& gradient : nothing.gradients) EXPECT_TRUE(all_zero(gradient)) << length;
    }
  }
}

TEST(Attention, StaysFiniteAtScoresBeyondTheRangeOfExp) {
  AttentionInputs inputs({1, 70, 2, 4}, {1, 70, 1, 4}, 3);
  for (Real& x : inputs.q) x *= 1000;
  const OpEvaluation result = inputs.evaluate({});
  const auto finite = [](Real x) { return std::isfinite(x); };
  EXPECT_TRUE(std::ranges::all_of(result.value, finite));
  ASSERT_EQ(result.gradients.size(), 3u);
  for (const auto& gradient : result.gradients) {
    EXPECT_FALSE(gradient.empty());
    EXPECT_TRUE(std::ranges::all_of(gradient, finite));
  }
}

TEST(Attention, DoesNotHideANaN) {
  for (const Index length : {3, 64}) {
    AttentionInputs inputs({1, length, 1, 4}, {1, length, 1, 4}, 3);
    inputs.k[1] = std::numeric_limits<Real>::quiet_NaN();
    const std::vector<Real> out = inputs.evaluate({}).value;
    EXPECT_TRUE(std::ranges::all_of(out, [](Real x) { return std::isnan(x); })) << length;
  }
}

// The weights [heads, T, S] from scores computed one by one; as many key/value heads as query
// heads.
std::vector<double> expected_weights(const AttentionInputs& inputs, double scale,
                                     const std::vector<std::uint8_t>& mask) {
  const Index length = inputs.q_shape[1], heads = inputs.q_shape[2], width = inputs.q_shape[3];
  std::vector<double> weights(static_cast<std::size_t>(heads * length * length));
  for (Index row = 0; row < heads * length; ++row) {
    const Index h = row / length, t = row % length;
    double* const w = weights.data() + row * length;
    double total = 0;
    for (Index s = 0; s <= t; ++s) {
      if (mask[static_cast<std::size_t>(s)] == 0) continue;
      double score = 0;
      for (Index i = 0; i < width; ++i) {
        score +=
            static_cast<double>(inputs.q[static_cast<std::size_t>((t * heads + h) * width + i)]) *
            static_cast<double>(inputs.k[static_cast<std::size_t>((s * heads + h) * width + i)]);
      }
      w[s] = std::exp(scale * score);
      total += w[s];
    }
    for (Index s = 0; s <= t && total > 0; ++s) w[s] /= total;
  }
  return weights;
}

// Mean over the rows that see a key of -sum of w log w.
double mean_entropy(const std::vector<double>& weights, Index rows) {
  double sum = 0;
  for (const double w : weights) sum -= w > 0 ? w * std::log(w) : 0;
  return sum / static_cast<double>(rows);
}

TEST(Attention, MeasuresTheMeanEntropyOfItsRowsWhereAsked) {
  constexpr Index kLength = 150, kHidden = 5;
  const AttentionInputs inputs({1, kLength, 2, 4}, {1, kLength, 2, 4}, 3);
  std::vector<std::uint8_t> mask(kLength, 1);
  std::fill_n(mask.begin(), kHidden, std::uint8_t{0});  // the first rows see nothing: left out
  AttentionStats stats;
  Tape tape;
  const Var q = tape.leaf(inputs.q_shape, inputs.q), k = tape.leaf(inputs.k_shape, inputs.k);
  const Var v = tape.leaf(inputs.v_shape, inputs.v);
  const auto run = [&](AttentionStats* asked) {
    attention(q, k, v, {.scale = Real{0.7}, .key_mask = mask, .stats = asked});
  };
  run(&stats);
  EXPECT_EQ(stats.rows, 2 * (kLength - kHidden));
  const double mean = stats.entropy_sum / static_cast<double>(stats.rows);
  const std::vector<double> weights = expected_weights(inputs, 0.7, mask);
  EXPECT_NEAR(mean, mean_entropy(weights, stats.rows), kAttentionTolerance);
  EXPECT_TRUE(stats.weights.empty()) << "nobody asked for them";
  run(&stats);
  EXPECT_EQ(stats.rows, 4 * (kLength - kHidden)) << "further calls add to it";
  run(nullptr);
  EXPECT_EQ(stats.rows, 4 * (kLength - kHidden));
  stats.keeps_weights = true;
  run(&stats);
  ASSERT_EQ(stats.weights.size(), weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i)
    ASSERT_NEAR(static_cast<double>(stats.weights[i]), weights[i], kAttentionTolerance) << i;
}

// Memory for gradients is used again: the first pass leaves numbers other than 0 in it.
TEST(Attention, KeysThatNoQuerySeesGetNoGradientWhateverTheirMemoryHeld) {
  const AttentionInputs inputs({1, 2, 1, 4}, {1, 200, 1, 4}, 4);
  Tape tape;
  for (const Index window : {0, 3}) {
    tape.reset();
    const Var q = tape.leaf(inputs.q_shape, inputs.q), k = tape.leaf(inputs.k_shape, inputs.k);
    const Var v = tape.leaf(inputs.v_shape, inputs.v);
    const std::vector<Real> ones(inputs.q.size(), 1);
    tape.backward(attention(q, k, v, {.window = window}), ones);
    for (const Var x : {k, v}) {
      const std::vector<Real> gradient(x.gradient().begin(), x.gradient().end());
      EXPECT_EQ(all_zero(rows(gradient, 0, 196, 4)), window > 0);
      EXPECT_FALSE(all_zero(rows(gradient, 196, 200, 4)));
    }
  }
}

}  // namespace
}  // namespace headcount
