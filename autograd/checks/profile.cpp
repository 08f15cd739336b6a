#include "autograd/checks/profile.h"

namespace headcount {

void Profile::start() {
  macs_before_ = macs_.count();
  started_ = Clock::now();
}

double Profile::stop(OpCost& cost) {
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  cost.macs += static_cast<double>(macs_.count() - macs_before_);
  return seconds;
}

void Profile::begin_forward(Op op, std::size_t node, Index inputs, Index outputs) {
  traffic_.resize(node + 1);
  traffic_[node] = {inputs, outputs};
  op_ = op;
  start();
}

void Profile::end_forward() {
  OpCost& cost = at(op_);
  cost.forward_seconds += stop(cost);
  ++cost.calls;
  const Traffic& t = traffic_.back();
  cost.bytes += static_cast<double>(t.inputs + t.outputs) * sizeof(Real);
}

void Profile::end_backward(Op op, std::size_t node) {
  OpCost& cost = at(op);
  cost.backward_seconds += stop(cost);
  // Backward reads the output's gradient and the inputs, and writes the inputs' gradients.
  const Traffic t = node < traffic_.size() ? traffic_[node] : Traffic{};
  cost.bytes += static_cast<double>(2 * t.inputs + t.outputs) * sizeof(Real);
}

}  // namespace headcount
