#pragma once

#include <span>
#include <string>
#include <vector>

#include "autograd/checks/finite_differences.h"
#include "support/numbers.h"

/// A function's values and gradients in one call.
namespace headcount {

/// Inputs of the given shapes filled with standard normal numbers, all differentiable.
std::vector<CheckedInput> normal_inputs(const std::string& name, std::span<const Shape> shapes);

struct OpEvaluation {
  Values value;
  std::vector<Values> gradients;  ///< of each input; empty if none arrived
};

/// The value at `inputs`, and the gradients for a random cotangent, of which `passes` backward
/// passes are added up. The memory of the tape was used before: gradients that are not written are
/// not numbers.
OpEvaluation evaluate(const CheckedFunction& function, std::span<const CheckedInput> inputs,
                      int passes = 1);

/// Largest difference of values and gradients.
double difference(const OpEvaluation& a, const OpEvaluation& b);

/// Returns true if all numbers have the same bits.
bool bitwise_equal(const OpEvaluation& a, const OpEvaluation& b);

}  // namespace headcount
