#pragma once

#include "autograd/base/count.h"
#include "nn/attention/attention.h"

/// Declarations that layers with the delta rule share: `delta` and `kda`.
namespace headcount {

/// Settings of such a layer.
struct DeltaSizes {
  Index v_dim, value_heads, key_heads, taps;

  void visit(const auto& setting) {
    const WholeRange any = {1};
    setting(v_dim, {"v-dim", "dimensions of v per head", any, same_as("head-dim")});
    setting(value_heads,
            {"value-heads", "value heads, each with a recurrent state", any, same_as("heads")});
    setting(key_heads, {"key-heads", "query and key heads, a divisor of value-heads", any,
                        same_as("value-heads")});
    setting(taps, {"conv-taps",
                   "length in tokens of the causal convolution over q, k and v; 1: the token "
                   "itself only",
                   any, 4});
  }
  void check(const AttentionPlan& c) const;

  Index group() const { return value_heads / key_heads; }
  // Channels; these throw if sizes overflow.
  Index keys(Index k_dim) const { return (Count(key_heads) * k_dim).index(); }
  Index values() const { return (Count(value_heads) * v_dim).index(); }
  Index of_convolution(Index k_dim) const { return (2 * Count(keys(k_dim)) + values()).index(); }
};

/// Gated delta rule of q and k, which it scales to unit length, and q by 1 / sqrt(d) besides.
/// Throws ShapeError if there is a key mask.
Var delta_rule(Var q, Var k, Var v, Var g, Var beta, Memory& memory);

}  // namespace headcount
