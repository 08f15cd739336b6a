#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "autograd/ops.h"
#include "autograd/parameters.h"
#include "nn/attention/memory.h"

namespace headcount {

/// Causal convolution over the last `taps` tokens, each channel on its own; `prefix.weight`
/// [channels, 1, taps], and if `bias` `prefix.bias` [channels], which starts as the taps do.
class CausalConvolution {
 public:
  CausalConvolution(ParameterStore& parameters, const std::string& prefix, Index channels,
                    Index taps, Skip skip, const Initializer& start, bool bias = false);
  /// x [B, T, C], the channels from `first_channel` on, with a bias all -> the same shape: silu of
  /// the convolution, or with Skip::input x plus the convolution. `memory` keeps the last taps - 1
  /// inputs under the name `inputs`.
  Var operator()(Var x, std::string_view inputs, Memory& memory, Index first_channel = 0) const;

 private:
  ParameterId weight_;
  std::optional<ParameterId> bias_;
  Skip skip_;
};

/// Canon layer, x + convolution of x: starts uniform in +- 1 / sqrt(taps), as PyTorch's
/// convolutions do. Allen-Zhu, "Physics of language models: part 4.1" (2025).
CausalConvolution canon_layer(ParameterStore& parameters, const std::string& prefix, Index channels,
                              Index taps);

}  // namespace headcount
