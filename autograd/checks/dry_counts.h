#pragma once

#include <array>

#include "autograd/base/count.h"
#include "autograd/op.h"

namespace headcount {

/// Multiply-accumulates of a dry pass (see Tape).
struct DryCounts {
  /// Multiply-accumulates of one op: on cached rows alone, such as rebuilding keys, and all others.
  struct OfOp {
    Count of_cache, of_tokens;
  };
  std::array<OfOp, static_cast<std::size_t>(Op::count_)> ops = {};

  const OfOp& operator[](Op op) const { return ops[static_cast<std::size_t>(op)]; }
  OfOp sum() const;
};

}  // namespace headcount
