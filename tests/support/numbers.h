#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/random.h"

/// Random numbers of tests, and how far apart two lists of numbers are.
namespace headcount {

using Values = std::vector<Real>;

/// `count` normal numbers with a deviation of `size`.
inline Values normal_values(const RandomKey& key, Index count, double size = 1) {
  Values values;
  for (Index i = 0; i < count; ++i)
    values.push_back(static_cast<Real>(size * random_normal(key, static_cast<std::uint64_t>(i))));
  return values;
}
/// Standard normal numbers that depend on the name and the stream alone.
inline Values normal_values(std::string_view name, std::uint32_t stream, Index count) {
  return normal_values({random_stream(name), stream, 0}, count);
}
inline Values normal_values(std::uint32_t stream, Index count, double size = 1) {
  return normal_values({5, stream, 0}, count, size);
}

/// A copy of `values`, to compare and to keep.
inline Values copy(std::span<const Real> values) { return {values.begin(), values.end()}; }

/// Largest |a - b| / max(1, |a|, |b|); infinite if sizes disagree or a number is not finite.
inline double difference(std::span<const Real> a, std::span<const Real> b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double worst = a.size() == b.size() ? 0 : kInfinity;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double error = std::abs(x - y) / std::max({1.0, std::abs(x), std::abs(y)});
    worst = std::isfinite(error) ? std::max(worst, error) : kInfinity;
  }
  return worst;
}

}  // namespace headcount
