#include "nn/convolution.h"

#include <cmath>

namespace headcount {

CausalConvolution::CausalConvolution(ParameterStore& parameters, const std::string& prefix,
                                     Index channels, Index taps, Skip skip,
                                     const Initializer& start, bool bias)
    : weight_(parameters.add(prefix + ".weight", {channels, 1, taps}, start)), skip_(skip) {
  if (bias) bias_ = parameters.add(prefix + ".bias", {channels}, start);
}

Var CausalConvolution::operator()(Var x, std::string_view inputs, Memory& memory,
                                  Index first_channel) const {
  const Var weight = x.tape->parameter(weight_);
  const Var all = memory.after_earlier(inputs, x, weight.shape()[2] - 1);
  Var y = causal_convolution(all, weight, first_channel, skip_, x.shape()[1]);
  if (bias_) y = add(y, x.tape->parameter(*bias_));
  return skip_ == Skip::input ? y : silu(y);
}

CausalConvolution canon_layer(ParameterStore& parameters, const std::string& prefix, Index channels,
                              Index taps) {
  return {parameters, prefix,      channels,
          taps,       Skip::input, Initializer::uniform(1 / std::sqrt(static_cast<double>(taps)))};
}

}  // namespace headcount
