#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace headcount {

/// The first of `numbers` that is NaN or infinite, as "is nan at element 3"; nothing if all are
/// finite.
std::optional<std::string> non_finite(std::span<const Real> numbers);

/// Throws NonFiniteError at the first NaN or infinity in a value or a gradient of the tape that it
/// watches. The message names the op, the shapes of its inputs and output, and the element.
class NonFiniteTrap : public TapeWatcher {
 public:
  void begin_forward(Var output, std::span<const Var> inputs) override;
  void end_forward(Var output) override { check(output, output.value(), "value"); }
  void end_backward(Var output) override;

 private:
  void check(Var output, std::span<const Real> numbers, const std::string& what) const;

  std::vector<std::vector<Var>> inputs_;  // by node of the tape
};

}  // namespace headcount
