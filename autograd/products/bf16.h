#pragma once

#include "autograd/base/real.h"

namespace headcount {

/// Least rows of a product's result for which operands are rounded to bfloat16. With fewer rows,
/// reading the right operand takes all the time, and rounding it would save none.
inline constexpr Index kFewRows = 8;

/// Rounds numbers to bfloat16, on all threads.
void round_to_bf16(const Real* from, Index count, Eigen::bfloat16* to);

}  // namespace headcount
