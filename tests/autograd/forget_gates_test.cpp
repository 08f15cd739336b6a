// programs: autograd in_double
// Attention with forget gates over long texts, against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/evaluation.h"
#include "autograd/ops.h"

namespace headcount {
namespace {

constexpr Index kLongKeys = 16384, kLastQueries = 64, kGatedHeads = 3, kGatedWidth = 4;
// Tolerance, relative to the largest number. With running sums in float the first head was off by
// 2e-4.
constexpr double kGateTolerance = sizeof(Real) == sizeof(double) ? 1e-11 : 1e-5;

std::size_t number_of(Index token, Index head, Index i = 0, Index width = 1) {
  return static_cast<std::size_t>((token * kGatedHeads + head) * width + i);
}

// A long text whose last tokens ask. The gates of the heads are about 1/2, as at the start of
// training, 0.99 and 0.9999: they read some tokens, some hundred, and nearly all.
struct LongText {
  std::vector<Real> q = normal_values("q", 0, kLastQueries* kGatedHeads* kGatedWidth);
  std::vector<Real> k = normal_values("k", 0, kLongKeys* kGatedHeads* kGatedWidth);
  std::vector<Real> v = normal_values("v", 0, kLongKeys* kGatedHeads* kGatedWidth);
  std::vector<Real> dy = normal_values("dy", 0, kLastQueries* kGatedHeads* kGatedWidth);
  std::vector<Real> gates = normal_values("gates", 0, kLongKeys* kGatedHeads);

  LongText() {
    const double of_head[] = {std::log(0.5), std::log(0.99), std::log(0.9999)};
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i] = static_cast<Real>(of_head[i % kGatedHeads] *
                                   (1 + 0.3 * std::tanh(static_cast<double>(gates[i]))));
  }

  struct Results {
    std::vector<double> y, d_gates;
  };
  Results in_double() const {
    Results r{std::vector<double>(q.size()), std::vector<double>(gates.size())};
    for (Index h = 0; h < kGatedHeads; ++h) {
      std::vector<double> key_sums(kLongKeys);
      for (Index t = 0; t < kLastQueries; ++t) {
        const Index last = kLongKeys - kLastQueries + t;
        std::vector<double> weights(static_cast<std::size_t>(last + 1)), dp(weights.size());
        double gate_sum = 0, total = 0, dot = 0;
        for (Index j = last; j >= 0; --j) {
          double score = gate_sum;
          for (Index i = 0; i < kGatedWidth; ++i)
            score += static_cast<double>(q[number_of(t, h, i, kGatedWidth)]) *
                     static_cast<double>(k[number_of(j, h, i, kGatedWidth)]) / 2;
          gate_sum += static_cast<double>(gates[number_of(j, h)]);
          total += weights[static_cast<std::size_t>(j)] = std::exp(score);
        }
        for (std::size_t j = 0; j < weights.size(); ++j) {
          weights[j] /= total;
          for (Index i = 0; i < kGatedWidth; ++i) {
            const auto value =
                static_cast<double>(v[number_of(static_cast<Index>(j), h, i, kGatedWidth)]);
            r.y[number_of(t, h, i, kGatedWidth)] += weights[j] * value;
            dp[j] += value * static_cast<double>(dy[number_of(t, h, i, kGatedWidth)]);
          }
          dot += weights[j] * dp[j];
        }
        for (std::size_t j = 0; j < weights.size(); ++j) key_sums[j] += weights[j] * (dp[j] - dot);
      }
      double before = 0;
      for (Index j = 0; j < kLongKeys; ++j) {
        r.d_gates[number_of(j, h)] = before;
        before += key_sums[static_cast<std::size_t>(j)];
      }
    }
    return r;
  }
};

// Compares heads one by one, relative to the largest number of a head.
void expect_close_heads(std::span<const Real> values, std::span<const double> expected,
                        Index width) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t h = 0; h < kGatedHeads; ++h) {
    double most = 0, worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i / static_cast<std::size_t>(width) % kGatedHeads != h) continue;
      most = std::max(most, std::abs(expected[i]));
      worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected[i]));
    }
    EXPECT_LT(worst, kGateTolerance * most) << "head " << h;
  }
}

TEST(ForgetGates, AreExactInTextsOf16kTokens) {
  const LongText text;
  const auto [y, d_gates] = text.in_double();
  Tape tape;
  const Var q = tape.leaf({1, kLastQueries, kGatedHeads, kGatedWidth}, text.q);
  const Var k = tape.constant({1, kLongKeys, kGatedHeads, kGatedWidth}, text.k);
  const Var v = tape.constant({1, kLongKeys, kGatedHeads, kGatedWidth}, text.v);
  const Var gates = tape.leaf({1, kLongKeys, kGatedHeads, 1}, text.gates);
  const Rows rows = gates;
  const Var out = attention(q, k, v, {.scale = Real{0.5}, .log_gates = &rows});
  expect_close_heads(out.value(), y, kGatedWidth);
  tape.backward(out, text.dy);
  expect_close_heads(gates.gradient(), d_gates, 1);
}

// Decoding reads gates of the cache, here one that began again from its first slot.
TEST(ForgetGates, AreExactWhereOneTokenDecodesAfter16k) {
  const LongText text;
  const std::vector<double> y = text.in_double().y;
  RowCache k(1, kGatedHeads, kGatedWidth, kLongKeys, CacheType::real),
      v = RowCache(1, kGatedHeads, kGatedWidth, kLongKeys, CacheType::real),
      gates(1, kGatedHeads, 1, kLongKeys, CacheType::real);
  constexpr Index kEarlier = 1000;
  for (Index t = 0; t < kLongKeys; ++t) {
    k.write(0, kEarlier + t, text.k.data() + number_of(t, 0, 0, kGatedWidth));
    v.write(0, kEarlier + t, text.v.data() + number_of(t, 0, 0, kGatedWidth));
    gates.write(0, kEarlier + t, text.gates.data() + number_of(t, 0));
  }
  const auto last = static_cast<std::size_t>(kGatedHeads * kGatedWidth);
  Tape tape;
  const Var q = tape.constant({1, 1, kGatedHeads, kGatedWidth}, std::span(text.q).last(last));
  const Rows rows(gates, kEarlier + kLongKeys);
  const Var out = attention(q, Rows(k, kEarlier + kLongKeys), Rows(v, kEarlier + kLongKeys),
                            {.scale = Real{0.5}, .log_gates = &rows});
  expect_close_heads(out.value(), std::span(y).last(last), kGatedWidth);
}

}  // namespace
}  // namespace headcount
