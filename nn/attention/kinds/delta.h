#pragma once

#include <span>

#include "autograd/base/count.h"
#include "nn/attention/attention.h"

/// Declarations that layers with a recurrent state share: `delta`, `kda`, `ssd` and `lightning`.
namespace headcount {

/// `attention_of` a kind that keeps a state in place of rows: it has no softmax, no positions and
/// no later tokens.
template <class Layer, class Sizes>
constexpr AttentionKind recurrent_of(AttentionKind kind) {
  kind.attends = kind.rotates = false;
  kind.needs_causal = true;
  return attention_of<Layer, Sizes>(kind);
}
/// `conv-taps` of a convolution over q, k and v.
Setting taps_of_convolution();
/// State of each sequence for keys k [B, T, G, Dk] and values v [B, T, H, Dv] (see Memory::state).
/// Throws ShapeError if there is a key mask.
std::span<Real> recurrent_state(Var k, Var v, Memory& memory);
/// A number of each head [H] for each of its `width` channels: [H, width].
Var for_channels(Var of_heads, Index width);

/// Settings of a layer with the delta rule.
struct DeltaSizes {
  Index v_dim, value_heads, key_heads, taps;

  void visit(const auto& setting) {
    const WholeRange any = {1};
    setting(v_dim, shared_setting("v-dim", same_as("head-dim")));
    setting(value_heads,
            {"value-heads", "value heads, each with a recurrent state", any, same_as("heads")});
    setting(key_heads, {"key-heads", "query and key heads, a divisor of value-heads", any,
                        same_as("value-heads")});
    setting(taps, taps_of_convolution());
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
