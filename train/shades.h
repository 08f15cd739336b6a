#pragma once

#include <algorithm>
#include <array>

namespace headcount {

/// Least values of four shades, from light to dark, in which numbers are drawn.
using Shades = std::array<double, 4>;

inline constexpr Shades kWeightShades = {0.03, 0.1, 0.3, 0.6};  ///< attention weights
inline constexpr Shades kLossShades = {0.1, 0.5, 1, 2};         ///< nats

/// Number of the shade of `value`: 1 to 4, or 0 for none.
inline std::size_t shade(double value, const Shades& from) {
  return static_cast<std::size_t>(
      std::ranges::count_if(from, [=](double least) { return value >= least; }));
}

}  // namespace headcount
