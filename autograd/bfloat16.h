#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "autograd/base/real.h"

namespace headcount {

/// Number in bfloat16: the upper half of a float, with 8 bits of exponent and 7 of fraction.
struct Bfloat16 {
  std::uint16_t bits;
};

/// Rounds `count` numbers to nearest even. NaN stays NaN; numbers beyond the largest one become
/// infinite.
inline void round_to_bf16(const Real* x, Index count, Bfloat16* rounded) {
  // Vectors are passed by reference: how they are passed by value depends on the processor's
  // registers.
  const auto round = []<class Words>(Words& bits) {
    const Words upper = bits >> 16;
    // Adds half a unit of the last place that stays, less one bit if that place is even.
    const Words nearest = (bits + 0x7fff + (upper & 1)) >> 16;
    bits = (bits & 0x7fffffff) > 0x7f800000 ? upper | 0x40 : nearest;
  };
  // Vectors of 16 by hand: the compiler does not vectorise this loop inside of another one.
  constexpr Index kLanes = 16;
  using Reals [[gnu::vector_size(kLanes * sizeof(Real))]] = Real;
  using Floats [[gnu::vector_size(kLanes * 4)]] = float;
  using Words [[gnu::vector_size(kLanes * 4)]] = std::uint32_t;
  using Halves [[gnu::vector_size(kLanes * 2)]] = std::uint16_t;
  Index i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Reals reals;
    std::memcpy(&reals, x + i, sizeof reals);
    const Floats floats = __builtin_convertvector(reals, Floats);
    Words words;
    std::memcpy(&words, &floats, sizeof words);
    round(words);
    const Halves halves = __builtin_convertvector(words, Halves);
    std::memcpy(rounded + i, &halves, sizeof halves);
  }
  for (; i < count; ++i) {
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x[i]));
    round(bits);
    rounded[i].bits = static_cast<std::uint16_t>(bits);
  }
}

inline float widened(Bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
/// Converts `count` numbers to Real, exactly. Written as shifts, which the compiler vectorises.
inline void widen(const Bfloat16* rounded, Index count, Real* x) {
  for (Index i = 0; i < count; ++i) x[i] = static_cast<Real>(widened(rounded[i]));
}

}  // namespace headcount
