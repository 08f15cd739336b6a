#pragma once

#include <bit>
#include <cstdint>

#include "autograd/base/real.h"

namespace headcount {

/// Number in bfloat16: the upper half of a float, with 8 bits of exponent and 7 of fraction.
struct Bfloat16 {
  std::uint16_t bits;
};

/// Rounds `count` numbers to nearest even. NaN stays NaN; numbers beyond the largest one become
/// infinite.
inline void round_to_bf16(const Real* x, Index count, Bfloat16* rounded) {
  for (Index i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x[i]));
    const std::uint32_t upper = bits >> 16;
    // Adds half a unit of the last place that stays, less one bit if that place is even.
    const std::uint32_t nearest = (bits + 0x7fff + (upper & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    rounded[i].bits = static_cast<std::uint16_t>(is_nan ? upper | 0x40 : nearest);
  }
}

inline float widened(Bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
/// Converts `count` numbers to Real, exactly. Written as shifts, which the compiler vectorises.
inline void widen(const Bfloat16* rounded, Index count, Real* x) {
  for (Index i = 0; i < count; ++i) x[i] = static_cast<Real>(widened(rounded[i]));
}

}  // namespace headcount
