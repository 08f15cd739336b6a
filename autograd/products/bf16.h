#pragma once

#include "autograd/base/real.h"

namespace headcount {

/// Rows of a product's result below which it takes the time of reading its right operand: it rounds
/// nothing.
inline constexpr Index kFewRows = 8;

/// Rounds numbers to bfloat16, on all threads.
void round_to_bf16(const Real* from, Index count, Eigen::bfloat16* to);

}  // namespace headcount
