// programs: autograd in_double
// Attention with forget gates over long texts, in training and in decoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

// Tolerance, relative to the largest number. With running sums in float a gate of 1/2 was off by
// 2e-4.
constexpr double kGateTolerance = sizeof(Real) == sizeof(double) ? 1e-11 : 1e-5;

void expect_close(std::span<const Real> values, std::span<const Real> expected) {
  ASSERT_EQ(values.size(), expected.size());
  double most = 0, worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(expected[i])));
    worst = std::max(worst, static_cast<double>(std::abs(values[i] - expected[i])));
  }
  EXPECT_LT(worst, kGateTolerance * most);
}

// Gates of 1/2, as at the start of training, 0.99 and 0.9999 read some tokens, some hundred, and
// nearly all. A key's score gains the sum of the gates after it, less what all keys of a query
// gain: attention without gates whose keys have that sum as one more number gives the same.
// Decoding reads gates of a cache, here of one that began again from its first slot.
TEST(ForgetGates, AreExactInTextsOf16kTokensAndInDecodingAfterThem) {
  constexpr Index kKeys = 16384, kQueries = 16, kWidth = 4, kEarlier = 1000;
  const Values q = normal_values("q", 0, kQueries * kWidth),
               dy = normal_values("dy", 0, kQueries * kWidth);
  const Values k = normal_values("k", 0, kKeys * kWidth), v = normal_values("v", 0, kKeys * kWidth);
  for (const double gate : {0.5, 0.99, 0.9999}) {
    SCOPED_TRACE(gate);
    Values log_gates = normal_values("gates", 0, kKeys), sums(kKeys);
    double sum = 0;
    for (std::size_t j = kKeys; j-- > 0;) {
      sums[j] = static_cast<Real>(sum);
      const double more = 0.3 * std::tanh(static_cast<double>(log_gates[j]));
      log_gates[j] = static_cast<Real>(std::log(gate) * (1 + more));
      sum += static_cast<double>(log_gates[j]);
    }
    Tape tape;
    const auto input = [&](const Values& values, Index width) {
      return tape.constant({1, std::ssize(values) / width, 1, width}, values);
    };
    const Var queries = input(q, kWidth), keys = input(k, kWidth), values = input(v, kWidth);
    const Var gates = tape.leaf({1, kKeys, 1, 1}, log_gates);
    const Var gains = tape.leaf({1, kKeys, 1, 1}, sums);
    const Rows rows = gates;
    const Var out = attention(queries, keys, values, {.scale = Real{0.5}, .log_gates = &rows});
    const Var expected = attention(concat(queries, input(Values(kQueries, 2), 1)),
                                   concat(keys, gains), values, {.scale = Real{0.5}});
    expect_close(out.value(), expected.value());
    tape.backward(out, dy);
    tape.backward(expected, dy);
    Values d_gates;
    sum = 0;
    for (const Real d : gains.gradient()) {
      d_gates.push_back(static_cast<Real>(sum));
      sum += static_cast<double>(d);
    }
    expect_close(gates.gradient(), d_gates);

    std::vector<RowCache> caches;
    for (const Var of_tape : {keys, values, gates}) {
      const Index width = of_tape.shape().last();
      caches.emplace_back(1, 1, width, kKeys, CacheType::real);
      for (Index t = 0; t < kKeys; ++t)
        caches.back().write(0, kEarlier + t, of_tape.value().data() + t * width);
    }
    const auto cached = [&](std::size_t i) { return Rows(caches[i], kEarlier + kKeys); };
    const Rows cached_gates = cached(2);
    const Var newest = tape.constant({1, 1, 1, kWidth}, std::span(q).last(kWidth));
    const Var decoded =
        attention(newest, cached(0), cached(1), {.scale = Real{0.5}, .log_gates = &cached_gates});
    expect_close(decoded.value(), expected.value().last(kWidth));
  }
}

}  // namespace
}  // namespace headcount
