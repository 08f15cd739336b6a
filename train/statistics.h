#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/real.h"

namespace headcount {

/// The chance that a 95 % confidence interval leaves out what it is for.
inline constexpr double kOutsideInterval = 0.05;

/// A mean with the half width of its 95 % confidence interval; none for fewer than two values.
struct Estimate {
  double mean = 0;
  std::optional<double> half_width;
};

/// The t with P(|T| > t) = `outside` for Student's distribution (Gosset 1908); `outside` in (0, 1),
/// `degrees_of_freedom` at least 1.
double student_t(Index degrees_of_freedom, double outside);

/// Mean of `values` (one or more, independent) and, of two or more, the half width of its 95 %
/// confidence interval: student_t(n - 1, kOutsideInterval) s / sqrt(n), s^2 the unbiased variance.
Estimate estimate(std::span<const double> values);

/// The mean of `values` (two or more) with an interval of so many standard errors on both sides, or
/// without one.
Estimate estimate(std::span<const double> values, std::optional<double> errors);

/// Whether the interval has zero outside it; none without an interval.
std::optional<bool> excludes_zero(const Estimate& estimate);

/// The middle one of `values` (one or more, not NaN); of an even number the upper one of the two.
double median(std::vector<double> values);

}  // namespace headcount
