#pragma once

#include <algorithm>
#include <array>

namespace headcount {

/// From which values on a number is drawn in the next darker of four shades.
using Shades = std::array<double, 4>;

inline constexpr Shades kWeightShades = {0.03, 0.1, 0.3, 0.6};  ///< of attention
inline constexpr Shades kLossShades = {0.1, 0.5, 1, 2};         ///< nats

/// 0, without a shade, to 4.
inline std::size_t shade(double value, const Shades& from) {
  return static_cast<std::size_t>(
      std::ranges::count_if(from, [=](double least) { return value >= least; }));
}

}  // namespace headcount
