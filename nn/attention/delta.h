#pragma once

#include "nn/attention/attention.h"

/// Declarations that layers with the delta rule share: `delta` and `kda`.
namespace headcount {

struct DeltaSettings {
  Index v_dim = 0, value_heads = 0, key_heads = 0, taps = 4;
  bool gate_bias = true;  ///< of kda only
  Index k_dim = 0;        ///< `head-dim`

  Index group() const { return value_heads / key_heads; }
  Index keys() const { return key_heads * k_dim; }
  Index values() const { return value_heads * v_dim; }
};

inline constexpr auto kDeltaVDim =
    whole<&DeltaSettings::v_dim>("v-dim", "dimensions of v per head", 1)
        .with({.derived = "head-dim"});
inline constexpr auto kDeltaValueHeads =
    whole<&DeltaSettings::value_heads>("value-heads", "value heads, each with a recurrent state", 1)
        .with({.derived = "heads"});
inline constexpr auto kDeltaKeyHeads =
    whole<&DeltaSettings::key_heads>("key-heads", "query and key heads, a divisor of value-heads",
                                     1)
        .with({.derived = "value-heads"});
inline constexpr auto kDeltaTaps = whole<&DeltaSettings::taps>(
    "conv-taps",
    "length in tokens of the causal convolution over q, k and v; 1: the token itself only", 1);

/// Checks and completes `own`, which has the settings that are given.
DeltaSettings resolve_delta(const AttentionPlan& layer, const Given& given, DeltaSettings own);
/// Defaults of settings that are not given.
DeltaSettings delta_defaults(const AttentionPlan& layer);
/// A state for each value head, and the last inputs of the convolutions over q, k and v.
std::vector<Kept> delta_keeps(const DeltaSettings& settings);
/// Multiply-accumulates per token to read and update the states.
Count delta_macs(const DeltaSettings& settings);
/// The delta rule on q and k of unit length, q divided by sqrt(d) besides. Throws ShapeError if
/// there is a key mask.
Var delta_rule(Var q, Var k, Var v, Var g, Var beta, Memory& memory);

}  // namespace headcount
