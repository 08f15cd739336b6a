#include "autograd/checks/trap.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"

namespace headcount {

std::optional<std::string> non_finite(std::span<const Real> numbers) {
  int wrong = 0;  // a loop without an early end is vectorised
  for (const Real x : numbers) wrong |= std::isfinite(x) ? 0 : 1;
  if (wrong == 0) return std::nullopt;
  const auto found = std::ranges::find_if_not(numbers, [](Real x) { return std::isfinite(x); });
  return message_of("is {} at element {}", *found, found - numbers.begin());
}

void NonFiniteTrap::begin_forward(Var output, std::span<const Var> inputs) {
  inputs_.resize(output.index);
  inputs_.emplace_back(inputs.begin(), inputs.end());
}

void NonFiniteTrap::end_backward(Var output) {
  if (output.index >= inputs_.size()) return;  // recorded before the trap watched
  const std::vector<Var>& inputs = inputs_[output.index];
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check(output, inputs[i].gradient(), "gradient of input " + std::to_string(i));
}

void NonFiniteTrap::check(Var output, std::span<const Real> numbers,
                          const std::string& what) const {
  const auto found = non_finite(numbers);
  if (!found) return;
  std::string inputs;
  for (const Var input : inputs_[output.index]) {
    const std::string parameter = output.tape->parameter_name(input);
    inputs += (inputs.empty() ? "" : ", ") + (parameter.empty() ? "" : parameter + " ") +
              input.shape().text();
  }
  throw NonFiniteError("op {} ({}) -> {}, node {}: the {} {}", name(output.tape->op(output)),
                       inputs, output.shape().text(), output.index, what, *found);
}

}  // namespace headcount
