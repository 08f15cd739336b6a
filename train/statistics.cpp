#include "train/statistics.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/SpecialFunctions>

namespace headcount {

namespace {

// P(|T| > t) as a regularised incomplete beta function; Abramowitz & Stegun 26.7.1.
double two_sided_tail(double t, double degrees_of_freedom) {
  using One = Eigen::Array<double, 1, 1>;
  const One a(degrees_of_freedom / 2), b(0.5);
  const One x(degrees_of_freedom / (degrees_of_freedom + t * t));
  return Eigen::betainc(a, b, x).value();
}

}  // namespace

double student_t_95(Index degrees_of_freedom) {
  double low = 0, high = 16;  // one degree of freedom: 12.7
  // Doubles have 53 bits; halving more often changes nothing.
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (two_sided_tail(middle, static_cast<double>(degrees_of_freedom)) > 0.05 ? low : high) = middle;
  }
  return (low + high) / 2;
}

Estimate estimate(std::span<const double> values) {
  const Eigen::Map<const Eigen::ArrayXd> x(values.data(), static_cast<Index>(values.size()));
  const double n = static_cast<double>(x.size());
  Estimate result{x.mean(), std::nullopt};
  if (x.size() >= 2) {
    const double deviation = std::sqrt((x - result.mean).square().sum() / (n - 1));
    result.half_width = student_t_95(x.size() - 1) * deviation / std::sqrt(n);
  }
  return result;
}

std::optional<bool> excludes_zero(const Estimate& estimate) {
  if (!estimate.half_width || !std::isfinite(*estimate.half_width)) return std::nullopt;
  return std::abs(estimate.mean) > *estimate.half_width;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace headcount
