#pragma once

#include <cstdint>

#include "autograd/base/error.h"

namespace headcount {

/// A number of parameters, multiply-accumulates or bytes. Arithmetic that would leave 64 bits
/// throws ShapeError instead of wrapping.
class Count {
 public:
  constexpr Count(std::int64_t value = 0) : value_(value) {}
  constexpr std::int64_t value() const { return value_; }
  bool operator==(const Count&) const = default;

  friend Count operator+(Count a, Count b) {
    std::int64_t result = 0;
    refuse_if(__builtin_add_overflow(a.value_, b.value_, &result));
    return result;
  }
  friend Count operator*(Count a, Count b) {
    std::int64_t result = 0;
    refuse_if(__builtin_mul_overflow(a.value_, b.value_, &result));
    return result;
  }
  Count& operator+=(Count other) { return *this = *this + other; }

 private:
  static void refuse_if(bool overflow) {
    if (overflow)
      throw ShapeError(
          "these sizes overflow 64 bits; lower `dim`, `heads`, `head-dim`, `layers` or `context`");
  }
  std::int64_t value_;
};

}  // namespace headcount
