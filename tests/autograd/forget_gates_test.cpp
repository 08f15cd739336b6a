// programs: autograd in_double
// Attention with forget gates over long texts, against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

constexpr Index kLongKeys = 16384, kLastQueries = 64, kGatedWidth = 4;
// Tolerance, relative to the largest number. With running sums in float a gate of 1/2 was off by
// 2e-4.
constexpr double kGateTolerance = sizeof(Real) == sizeof(double) ? 1e-11 : 1e-5;

// A long text, one head wide, whose last tokens ask.
struct LongText {
  Values q = normal_values("q", 0, kLastQueries*kGatedWidth),
         k = normal_values("k", 0, kLongKeys*kGatedWidth);
  Values v = normal_values("v", 0, kLongKeys*kGatedWidth),
         dy = normal_values("dy", 0, kLastQueries*kGatedWidth);
  Values gates = normal_values("gates", 0, kLongKeys);
  std::vector<double> y, d_gates;  // in double

  explicit LongText(double gate) : y(q.size()), d_gates(gates.size()) {
    for (Real& g : gates)
      g = static_cast<Real>(std::log(gate) * (1 + 0.3 * std::tanh(static_cast<double>(g))));
    std::vector<double> key_sums(kLongKeys);
    for (Index t = 0; t < kLastQueries; ++t) {
      const Index last = kLongKeys - kLastQueries + t;
      std::vector<double> weights(static_cast<std::size_t>(last + 1)), dp(weights.size());
      double gate_sum = 0, total = 0, dot = 0;
      for (Index j = last; j >= 0; --j) {
        total += weights[static_cast<std::size_t>(j)] = std::exp(gate_sum + of(q, t, k, j) / 2);
        gate_sum += static_cast<double>(gates[static_cast<std::size_t>(j)]);
      }
      for (std::size_t j = 0; j < weights.size(); ++j) {
        weights[j] /= total;
        dp[j] = of(v, static_cast<Index>(j), dy, t);
        dot += weights[j] * dp[j];
        for (std::size_t i = 0; i < kGatedWidth; ++i)
          y[static_cast<std::size_t>(t * kGatedWidth) + i] +=
              weights[j] * static_cast<double>(v[j * kGatedWidth + i]);
      }
      for (std::size_t j = 0; j < weights.size(); ++j) key_sums[j] += weights[j] * (dp[j] - dot);
    }
    double before = 0;
    for (std::size_t j = 0; j < key_sums.size(); ++j) {
      d_gates[j] = before;
      before += key_sums[j];
    }
  }
  // Row i of a times row j of b.
  static double of(const Values& a, Index i, const Values& b, Index j) {
    double sum = 0;
    for (Index n = 0; n < kGatedWidth; ++n)
      sum += static_cast<double>(a[static_cast<std::size_t>(i * kGatedWidth + n)]) *
             static_cast<double>(b[static_cast<std::size_t>(j * kGatedWidth + n)]);
    return sum;
  }
};

void expect_close(std::span<const Real> values, std::span<const double> expected) {
  ASSERT_EQ(values.size(), expected.size());
  double most = 0, worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    most = std::max(most, std::abs(expected[i]));
    worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected[i]));
  }
  EXPECT_LT(worst, kGateTolerance * most);
}

// Gates of 1/2, as at the start of training, 0.99 and 0.9999 read some tokens, some hundred, and
// nearly all. Decoding reads gates of a cache, here of one that began again from its first slot.
TEST(ForgetGates, AreExactInTextsOf16kTokensAndInDecodingAfterThem) {
  for (const double gate : {0.5, 0.99, 0.9999}) {
    SCOPED_TRACE(gate);
    const LongText text(gate);
    Tape tape;
    const Var q = tape.leaf({1, kLastQueries, 1, kGatedWidth}, text.q);
    const Var k = tape.constant({1, kLongKeys, 1, kGatedWidth}, text.k);
    const Var v = tape.constant({1, kLongKeys, 1, kGatedWidth}, text.v);
    const Var gates = tape.leaf({1, kLongKeys, 1, 1}, text.gates);
    const Rows rows = gates;
    const Var out = attention(q, k, v, {.scale = Real{0.5}, .log_gates = &rows});
    expect_close(out.value(), text.y);
    tape.backward(out, text.dy);
    expect_close(gates.gradient(), text.d_gates);

    constexpr Index kEarlier = 1000;
    std::vector<RowCache> caches;
    for (const Values* const values : {&text.k, &text.v, &text.gates}) {
      const Index width = std::ssize(*values) / kLongKeys;
      caches.emplace_back(1, 1, width, kLongKeys, CacheType::real);
      for (Index t = 0; t < kLongKeys; ++t)
        caches.back().write(0, kEarlier + t, values->data() + t * width);
    }
    const auto cached = [&](std::size_t i) { return Rows(caches[i], kEarlier + kLongKeys); };
    const Rows cached_gates = cached(2);
    const Var newest = tape.constant({1, 1, 1, kGatedWidth}, std::span(text.q).last(kGatedWidth));
    const Var decoded =
        attention(newest, cached(0), cached(1), {.scale = Real{0.5}, .log_gates = &cached_gates});
    expect_close(decoded.value(), std::span(text.y).last(kGatedWidth));
  }
}

}  // namespace
}  // namespace headcount
