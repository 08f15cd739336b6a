#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/real.h"

namespace headcount {

/// A mean with the half width of its 95 % confidence interval (Student t); none for fewer than two
/// values.
struct Estimate {
  double mean = 0;
  std::optional<double> half_width;
};

/// The t with P(|T| <= t) = 0.95 for Student's distribution (Gosset 1908): half widths of 95 %
/// confidence intervals are this many standard errors. `degrees_of_freedom` is at least 1.
double student_t_95(Index degrees_of_freedom);

/// Mean of `values` (one or more, independent) and, of two or more, the half width of its 95 %
/// confidence interval: student_t_95(n - 1) s / sqrt(n), s^2 the unbiased variance.
Estimate estimate(std::span<const double> values);

/// Whether the interval has zero outside it; none without an interval.
std::optional<bool> excludes_zero(const Estimate& estimate);

/// The middle one of `values` (one or more, not NaN); of an even number the upper one of the two.
double median(std::vector<double> values);

}  // namespace headcount
