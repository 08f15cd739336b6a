#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape.h"

/// Gradient check by central differences, in the build's Real. Use it in the double build: in float
/// the differences have errors near 1e-3.
namespace headcount {

/// One input of a function under check.
struct CheckedInput {
  Shape shape;
  std::vector<Real> values;
  bool differentiable = true;  ///< false: a constant, neither perturbed nor compared
};

/// Records differentiable inputs as leaves of the tape, and the others as constants.
std::vector<Var> record(Tape& tape, std::span<const CheckedInput> inputs);

/// Function under check: maps inputs on a tape to one output of any shape. It is called many times
/// on freshly reset tapes and must compute the same function each time; if it draws random numbers,
/// it therefore begins with `tape.set_random`.
using CheckedFunction = std::function<Var(Tape& tape, std::span<const Var> inputs)>;

struct GradientCheckOptions {
  /// Inputs of at most this many elements are perturbed element by element, larger inputs in
  /// `directions` random directions.
  Index every_element_up_to = 256;
  int directions = 1;
  /// Distance between two points of the stencil for an element of magnitude up to 1. Truncation
  /// error, step^4 |f^(5)| / 30, is then 2e-15 |f^(5)|, and rounding error, 1e-16 |f| / step, is
  /// 2e-13 |f|.
  double step = 5e-4;
  /// Derivatives smaller than this are compared absolutely.
  double floor = 1e-5;
  std::uint64_t seed = 1;  ///< seed of cotangent and directions
};

/// Result of a gradient check: the largest difference between the two derivatives, and its element.
struct GradientReport {
  /// |analytic - numeric| / max(floor, |analytic| + |numeric|); infinite if either is not finite.
  double error = 0;
  std::size_t input = 0;  ///< index of the input, or of the parameter in the store
  Index element = -1;     ///< index of the element; -1: a random direction
  double analytic = 0;
  double numeric = 0;
  Index derivatives = 0;  ///< number of derivatives compared; 0: nothing was checked

  std::string text() const;  ///< the report as one line
};

/// Compares `backward` with fourth-order central differences,
///     f'(x) d = (8 (f(x + h d) - f(x - h d)) - (f(x + 2 h d) - f(x - 2 h d))) / (12 h),
/// where f is the function's value weighted by a random cotangent. The cotangent is never all ones,
/// because a plain sum hides errors: the outputs of a softmax sum to 1 whatever its input. For an
/// element, d is the unit vector times max(1, |x|). Abramowitz and Stegun, "Handbook of
/// mathematical functions" (1964), formula 25.3.
GradientReport check_gradients(const CheckedFunction& function, std::vector<CheckedInput> inputs,
                               const GradientCheckOptions& options = {});

/// Gradient check, as above, of every parameter of `store`, for example under the loss of a whole
/// model. Leaves the parameters' values as they were and their gradients cleared.
GradientReport check_parameter_gradients(const std::function<Var(Tape& tape)>& function,
                                         ParameterStore& store,
                                         const GradientCheckOptions& options = {});

}  // namespace headcount
