#include "train/show/statistics.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
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

double student_t(Index degrees_of_freedom, double outside) {
  const auto degrees = static_cast<double>(degrees_of_freedom);
  double low = 0, high = 1;
  while (two_sided_tail(high, degrees) > outside) high *= 2;
  // Doubles have 53 bits; halving more often changes nothing.
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (two_sided_tail(middle, degrees) > outside ? low : high) = middle;
  }
  return (low + high) / 2;
}

Estimate estimate(std::span<const double> values) {
  std::optional<double> errors;
  if (values.size() >= 2) errors = student_t(std::ssize(values) - 1, kOutsideInterval);
  return estimate(values, errors);
}

// Sums in the order of the values: a vectorised sum depends on the address of its values.
Estimate estimate(std::span<const double> values, std::optional<double> errors) {
  const auto n = static_cast<double>(values.size());
  Estimate result{std::accumulate(values.begin(), values.end(), 0.0) / n, std::nullopt};
  if (!errors) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.half_width = *errors * std::sqrt(squares / (n - 1)) / std::sqrt(n);
  return result;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace headcount
