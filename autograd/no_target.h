#pragma once

#include <cstdint>

namespace headcount {

/// A target that `cross_entropy` does not count: its row adds nothing to the mean and gets no
/// gradient. Where no row counts the mean is 0.
inline constexpr std::int32_t kNoTarget = -1;

}  // namespace headcount
