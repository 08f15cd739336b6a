#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/op.h"
#include "autograd/products/products.h"

namespace headcount {

/// Total cost of all ops of one kind.
struct OpCost {
  Index calls = 0;
  double forward_seconds = 0, backward_seconds = 0;
  double macs = 0;   ///< multiply-accumulates in matrix products, forward and backward
  double bytes = 0;  ///< size of the tensors read and written, each counted once per pass
};

/// Times every op of a tape (`Tape::profile`), forward and backward. Use one at a time, because its
/// MacCounter is global.
class Profile {
 public:
  const OpCost& cost(Op op) const { return costs_[static_cast<std::size_t>(op)]; }

  // Called by the tape.
  void begin_forward(Op op, std::size_t node, Index inputs, Index outputs);
  void end_forward();
  void begin_backward() { start(); }
  void end_backward(Op op, std::size_t node);

 private:
  using Clock = std::chrono::steady_clock;
  struct Traffic {
    Index inputs = 0, outputs = 0;  // elements
  };
  OpCost& at(Op op) { return costs_[static_cast<std::size_t>(op)]; }
  void start();
  double stop(OpCost& cost);  // adds the work since `start` and returns the seconds

  std::array<OpCost, static_cast<std::size_t>(Op::count_)> costs_;
  std::vector<Traffic> traffic_;  // by node of the tape
  Op op_ = Op::leaf;
  Clock::time_point started_;
  std::int64_t macs_before_ = 0;
  MacCounter macs_;
};

}  // namespace headcount
