#pragma once

#include <optional>
#include <span>
#include <string>

#include "autograd/ops.h"
#include "autograd/parameters.h"
#include "nn/convolution.h"

namespace headcount {

/// Standard deviations of initial weights: GPT-2's scheme, as in nanoGPT.
struct WeightInit {
  double deviation = 0.02;
  double residual_deviation = 0.02;  ///< projections that write to the residual stream

  static WeightInit for_layers(Index layers);  ///< 0.02 and 0.02 / sqrt(2 layers)
};

/// y = x W^T + b; W is `prefix.weight` [out, in], b is `prefix.bias` [out].
class Linear {
 public:
  struct Size {
    Index in, out;
    bool bias = false;
    MatrixRows rows = MatrixRows::features;  ///< meaning of the rows of W
  };
  Linear(ParameterStore& parameters, const std::string& prefix, const Size& size, double deviation);
  /// x [..., in] -> [..., out]
  Var operator()(Var x) const;
  Var weight(Tape& tape) const { return tape.parameter(weight_); }
  std::optional<Var> bias(Tape& tape) const;

 private:
  ParameterId weight_;
  std::optional<ParameterId> bias_;
};

/// A table of vectors, `prefix.weight` [count, width].
class Embedding {
 public:
  Embedding(ParameterStore& parameters, const std::string& prefix, Index count, Index width,
            double deviation);
  /// ids, one per element of `rows` -> [rows..., width]
  Var operator()(Tape& tape, std::span<const std::int32_t> ids, const Shape& rows) const;
  Var weight(Tape& tape) const { return tape.parameter(weight_); }

 private:
  ParameterId weight_;
};

enum class NormKind { rms, layer };

struct NormOptions {
  NormKind kind = NormKind::rms;
  bool bias = false;  ///< of a LayerNorm; an RMSNorm has none
  double epsilon;
};

/// RMSNorm or LayerNorm; `prefix.weight` and `prefix.bias` [width].
class Norm {
 public:
  Norm(ParameterStore& parameters, const std::string& prefix, Index width,
       const NormOptions& options);
  /// x [..., width] -> the same shape. RMSNorm also takes x [..., parts, width / parts] and
  /// normalises each part on its own, with its share of the weights.
  Var operator()(Var x) const;

 private:
  NormKind kind_;
  ParameterId weight_;
  std::optional<ParameterId> bias_;
  Real epsilon_;
};

/// L2 normalisation of vectors [..., width] to the length `factor` sqrt(width):
///     y = x factor / sqrt(mean(x^2) + epsilon)
/// A factor of 1 / sqrt(width) makes vectors of unit length.
Var l2_norm(Var x, Real epsilon, Real factor);

enum class Activation { gelu, swiglu };

/// The feed-forward layer: down(gelu(up(x))), or down(silu(gate(x)) * up(x)).
class Mlp {
 public:
  struct Options {
    Index width, hidden;
    Activation activation;
    bool bias = false;
    Index canon_taps = 0;  ///< of a Canon layer `canonD` on [gate(x) | up(x)]; 0: none
  };
  Mlp(ParameterStore& parameters, const std::string& prefix, const Options& options,
      const WeightInit& init);
  /// x [B, T, width] -> the same shape. `memory` keeps the inputs of the Canon layer.
  Var operator()(Var x, Memory& memory) const;

 private:
  Index hidden_;
  std::optional<Linear> gate_;
  Linear up_, down_;
  std::optional<CausalConvolution> canon_;
};

}  // namespace headcount
