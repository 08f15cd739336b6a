// programs: autograd gradcheck in_double
#include "autograd/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/random.h"

namespace headcount {

std::vector<Real> normal_values(const std::string& name, std::uint32_t stream, Index count) {
  const RandomKey key{random_stream(name), stream, 0};
  std::vector<Real> values;
  for (Index i = 0; i < count; ++i) {
    values.push_back(static_cast<Real>(random_normal(key, static_cast<std::uint64_t>(i))));
  }
  return values;
}

std::vector<Real> copy(std::span<const Real> values) { return {values.begin(), values.end()}; }

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
  Tape tape;
  std::vector<Var> vars;
  for (const CheckedInput& input : inputs) {
    vars.push_back(input.differentiable ? tape.leaf(input.shape, input.values)
                                        : tape.constant(input.shape, input.values));
  }
  const Var output = function(tape, vars);
  const std::span<const Real> value = output.value();
  OpEvaluation result{{value.begin(), value.end()}, {}};
  const auto cotangent = normal_values("cotangent", 0, output.shape().size());
  for (int i = 0; i < passes; ++i) tape.backward(output, cotangent);
  for (const Var var : vars) {
    const std::span<const Real> gradient = var.gradient();
    result.gradients.emplace_back(gradient.begin(), gradient.end());
  }
  return result;
}

namespace {

double difference(std::span<const Real> a, std::span<const Real> b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinity;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double error = std::abs(x - y) / std::max({1.0, std::abs(x), std::abs(y)});
    if (!std::isfinite(error)) return kInfinity;
    worst = std::max(worst, error);
  }
  return worst;
}

bool bitwise_equal(std::span<const Real> a, std::span<const Real> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

double difference(const OpEvaluation& a, const OpEvaluation& b) {
  double worst = a.gradients.size() == b.gradients.size() ? difference(a.value, b.value)
                                                          : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.gradients.size(), b.gradients.size()); ++i) {
    worst = std::max(worst, difference(a.gradients[i], b.gradients[i]));
  }
  return worst;
}

bool bitwise_equal(const OpEvaluation& a, const OpEvaluation& b) {
  bool equal = a.gradients.size() == b.gradients.size() && bitwise_equal(a.value, b.value);
  for (std::size_t i = 0; equal && i < a.gradients.size(); ++i) {
    equal = bitwise_equal(a.gradients[i], b.gradients[i]);
  }
  return equal;
}

}  // namespace headcount
