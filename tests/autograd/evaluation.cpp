// programs: autograd gradcheck in_double
#include "autograd/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace headcount {

std::vector<CheckedInput> normal_inputs(const std::string& name, std::span<const Shape> shapes) {
  std::vector<CheckedInput> inputs;
  for (const Shape& shape : shapes) {
    const auto stream = static_cast<std::uint32_t>(inputs.size() + 1);
    inputs.push_back({shape, normal_values(name, stream, shape.size())});
  }
  return inputs;
}

OpEvaluation evaluate(const CheckedFunction& function, std::span<const CheckedInput> inputs,
                      int passes) {
  constexpr Real kNaN = std::numeric_limits<Real>::quiet_NaN();
  Tape tape;
  std::vector<Var> vars;
  const auto output_of_a_new_step = [&] {
    tape.reset();
    vars = record(tape, inputs);
    return function(tape, vars);
  };
  const Var earlier = output_of_a_new_step();
  tape.backward(earlier, Values(earlier.value().size(), kNaN));
  const Var output = output_of_a_new_step();
  OpEvaluation result{copy(output.value()), {}};
  const Values cotangent = normal_values("cotangent", 0, output.shape().size());
  for (int i = 0; i < passes; ++i) tape.backward(output, cotangent);
  for (const Var var : vars) result.gradients.push_back(copy(var.gradient()));
  return result;
}

double difference(const OpEvaluation& a, const OpEvaluation& b) {
  double worst = a.gradients.size() == b.gradients.size() ? difference(a.value, b.value)
                                                          : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.gradients.size(), b.gradients.size()); ++i)
    worst = std::max(worst, difference(a.gradients[i], b.gradients[i]));
  return worst;
}

bool bitwise_equal(const OpEvaluation& a, const OpEvaluation& b) {
  const auto equal = [](const Values& x, const Values& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(Real)) == 0);
  };
  return equal(a.value, b.value) && std::ranges::equal(a.gradients, b.gradients, equal);
}

}  // namespace headcount
