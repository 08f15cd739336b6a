#pragma once

#include <span>
#include <string>
#include <vector>

#include "autograd/finite_differences.h"

/// Helpers of the engine's tests: random inputs, and a function's values and gradients in one call.
namespace headcount {

/// `count` standard normal numbers that depend on the name and the stream alone.
std::vector<Real> normal_values(const std::string& name, std::uint32_t stream, Index count);

/// A copy of `values`, to compare and to keep.
std::vector<Real> copy(std::span<const Real> values);

/// Inputs of the given shapes filled with standard normal numbers, all differentiable.
std::vector<CheckedInput> normal_inputs(const std::string& name, std::span<const Shape> shapes);

struct OpEvaluation {
  std::vector<Real> value;
  std::vector<std::vector<Real>> gradients;  ///< of each input; empty if none arrived
};

/// The value at `inputs`, and the gradients for a random cotangent, of which `passes` backward
/// passes are added up.
OpEvaluation evaluate(const CheckedFunction& function, std::span<const CheckedInput> inputs,
                      int passes = 1);

/// Largest |a - b| / max(1, |a|, |b|) over values and gradients; infinite if sizes disagree or a
/// number is not finite.
double difference(const OpEvaluation& a, const OpEvaluation& b);

/// Returns true if all numbers have the same bits.
bool bitwise_equal(const OpEvaluation& a, const OpEvaluation& b);

}  // namespace headcount
