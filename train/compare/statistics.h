#pragma once

#include <span>

#include "autograd/real.h"
#include "train/compare/comparison.h"

namespace headcount {

/// The t with P(|T| <= t) = 0.95 for Student's distribution (Gosset 1908): half widths of 95 %
/// confidence intervals are this many standard errors. `degrees_of_freedom` is at least 1.
double student_t_95(Index degrees_of_freedom);

/// Mean of `values` (one or more, independent) and, of two or more, the half width of its 95 %
/// confidence interval: student_t_95(n - 1) s / sqrt(n), s^2 the unbiased variance.
Estimate estimate(std::span<const double> values);

}  // namespace headcount
