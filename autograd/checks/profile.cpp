#include "autograd/checks/profile.h"

#include <algorithm>

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

void Profile::begin_forward(Var output, std::span<const Var> inputs) {
  traffic_.resize(output.index + 1);
  Traffic& traffic = traffic_.back() = {};
  // An alias has its input's memory.
  if (inputs.empty() || inputs[0].value().data() != output.value().data()) {
    traffic.outputs = output.shape().size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {  // each value counts once
      if (std::ranges::find(inputs.first(i), inputs[i].index, &Var::index) == inputs.first(i).end())
        traffic.inputs += inputs[i].shape().size();
    }
  }
  start();
}

void Profile::end_forward(Var output) {
  OpCost& cost = at(output);
  cost.forward_seconds += stop(cost);
  ++cost.calls;
  const Traffic& t = traffic_.back();
  cost.bytes += static_cast<double>(t.inputs + t.outputs) * sizeof(Real);
}

void Profile::end_backward(Var output) {
  OpCost& cost = at(output);
  cost.backward_seconds += stop(cost);
  // Backward reads the output's gradient and the inputs, and writes the inputs' gradients.
  const Traffic t = output.index < traffic_.size() ? traffic_[output.index] : Traffic{};
  cost.bytes += static_cast<double>(2 * t.inputs + t.outputs) * sizeof(Real);
}

}  // namespace headcount
