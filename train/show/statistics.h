#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// Probability that a 95 % confidence interval misses the true value.
inline constexpr double kOutsideInterval = 0.05;

/// A mean with the half width of its 95 % confidence interval; none for fewer than two values.
struct Estimate {
  double mean = 0;
  std::optional<double> half_width;
};

/// Critical value t with P(|T| > t) = `outside` of Student's distribution (Gosset 1908); `outside`
/// in (0, 1), `degrees_of_freedom` at least 1.
double student_t(Index degrees_of_freedom, double outside);

/// Mean of `values` (one or more, independent) and, of two or more, the half width of its 95 %
/// confidence interval: student_t(n - 1, kOutsideInterval) s / sqrt(n), s^2 the unbiased variance.
Estimate estimate(std::span<const double> values);

/// Mean of `values` (two or more) with an interval of `errors` standard errors on either side, or
/// without an interval.
Estimate estimate(std::span<const double> values, std::optional<double> errors);

/// Median of `values` (one or more, not NaN); the upper of the two middle values if the count is
/// even.
double median(std::vector<double> values);

}  // namespace headcount
