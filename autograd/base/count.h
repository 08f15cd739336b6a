#pragma once

#include <cstdint>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

namespace headcount {

/// A number of parameters, multiply-accumulates or bytes. Arithmetic that would leave 64 bits
/// throws ShapeError instead of wrapping.
class Count {
 public:
  constexpr Count(std::int64_t value = 0) : value_(value) {}
  constexpr std::int64_t value() const { return value_; }
  /// The value as a size. Throws ShapeError if it is no Index, which has 32 bits in WebAssembly.
  Index index() const {
    refuse_if(!std::in_range<Index>(value_), 8 * sizeof(Index));
    return static_cast<Index>(value_);
  }
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
  static void refuse_if(bool overflow, std::size_t bits = 64) {
    if (overflow)
      throw ShapeError(
          "these sizes overflow {} bits; lower `dim`, `heads`, `head-dim`, `layers` or `context`",
          bits);
  }
  std::int64_t value_;
};

}  // namespace headcount
