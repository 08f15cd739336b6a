#pragma once

#include <cstdint>

namespace headcount {

/// Target of a row that `cross_entropy` leaves out: it adds nothing to the mean and gets no
/// gradient. If all rows are left out, the mean is 0.
inline constexpr std::int32_t kNoTarget = -1;

}  // namespace headcount
