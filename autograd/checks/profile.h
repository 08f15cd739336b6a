#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/op.h"
#include "autograd/products/mac_counter.h"
#include "autograd/tape.h"

namespace headcount {

/// Total cost of all ops of one kind.
struct OpCost {
  Index calls = 0;
  double forward_seconds = 0, backward_seconds = 0;
  double macs = 0;   ///< multiply-accumulates in matrix products, forward and backward
  double bytes = 0;  ///< size of the tensors read and written, each counted once per pass
};

/// Times every op of the tapes that it watches, forward and backward. Use one at a time, because
/// its MacCounter is global.
class Profile : public TapeWatcher {
 public:
  const OpCost& cost(Op op) const { return costs_[static_cast<std::size_t>(op)]; }

  void begin_forward(Var output, std::span<const Var> inputs) override;
  void end_forward(Var output) override;
  void begin_backward(Var) override { start(); }
  void end_backward(Var output) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Traffic {
    Index inputs = 0, outputs = 0;  // elements
  };
  OpCost& at(Var y) { return costs_[static_cast<std::size_t>(y.tape->op(y))]; }
  void start();
  double stop(OpCost& cost);  // adds the work since `start` and returns the seconds

  std::array<OpCost, static_cast<std::size_t>(Op::count_)> costs_;
  std::vector<Traffic> traffic_;  // by node of the tape
  Clock::time_point started_;
  std::int64_t macs_before_ = 0;
  MacCounter macs_;
};

}  // namespace headcount
