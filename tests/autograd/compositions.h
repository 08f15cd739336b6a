#pragma once

#include <span>
#include <vector>

#include "autograd/ops.h"

/// References for the fused ops, composed of elementwise functions and matrix products as their
/// formulas read: slow, with every intermediate tensor kept, and easy to verify.
namespace headcount {

/// Tolerance for rounding: greatest difference of values and gradients between an op and its
/// composition.
constexpr double kComposedTolerance = sizeof(Real) == sizeof(double) ? 1e-10 : 1e-3;

// Elementwise functions that the engine has no op for.
Var logarithm(Var x);
Var square_root(Var x);
Var hyperbolic_tangent(Var x);
Var error_function(Var x);

/// A constant of this shape whose elements are all `value`.
Var filled(Tape& tape, const Shape& shape, Real value);
/// x [..., n] -> [..., n], each element the sum of its row.
Var row_sums(Var x);

Var composed_sigmoid(Var x);
Var composed_gelu(Var x);
Var composed_silu(Var x);
Var composed_softplus(Var x);
Var composed_softmax(Var x);
Var composed_layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon);
Var composed_rms_norm(Var x, std::optional<Var> weight, Real epsilon);
Var composed_linear(Var x, Var weight, std::optional<Var> bias);
/// Product of each head with its rows of the weight, one head after the other.
Var composed_head_linear(Var x, Var weight, Index first, Index count, Stored stored);
Var composed_embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows);
Var composed_cross_entropy(Var logits, std::span<const std::int32_t> targets);
/// RoPE: each head times the rotation matrix of its position.
Var composed_rotary(Var x, Index dim, double theta, RotaryLayout layout, Index first_position);
/// Attention with the whole T x S matrix of weights of each head; KV heads are repeated by a matrix
/// of zeros and ones. On a training tape its dropout agrees with that of `attention` if S is a
/// multiple of 8.
Var composed_attention(Var q, Var k, Var v, const AttentionOptions& options);
/// Pooled rows: sums weighted by a softmax over the tokens of a block.
std::optional<Var> composed_pool_tokens(Var x, Var gates, Var bias);
/// Causal convolution: sum over the taps, each times the input that many tokens earlier.
Var composed_causal_convolution(Var x, Var weight, Index first);
/// Gated delta rule, token by token. The last state [B, H, Dk, Dv] is stored in `state` if that is
/// given.
Var composed_gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, Var* state = nullptr);
/// Picks by a stable sort of the scores that a query sees, from products of all heads, [B, T, I,
/// R]. The lists live as long as the tape's step.
Picks composed_pick_rows(Var q, Var keys, Var weights, Real factor, const TopK& sizes);
/// Mean of KL(p || softmax(scores)), query by query, from the logarithm of a softmax.
Var composed_index_loss(const Picks& picks);

}  // namespace headcount
