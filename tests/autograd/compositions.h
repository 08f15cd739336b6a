#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "autograd/ops.h"
#include "support/numbers.h"

/// References for the ops, composed of a few functions with plain gradients and of matrix products,
/// as their formulas read: slow, with every intermediate tensor kept, and easy to verify.
namespace headcount {

/// Tolerance for rounding: greatest difference of values and gradients between an op and its
/// composition.
constexpr double kComposedTolerance = sizeof(Real) == sizeof(double) ? 1e-10 : 1e-3;

/// Indices of an element of a tensor of rank 4; of a lower rank, the first ones are 0.
using Position = std::array<Index, 4>;
using Source = std::function<Position(const Position&)>;
inline constexpr Position kNowhere = {-1, -1, -1, -1};

/// A tensor of this shape: at each position the element of x at `from` of it. An extent of 1 of x
/// is repeated; where an index is negative, the element is 0.
Var gathered(
    Var x, const Shape& shape, const Source& from = [](const Position& p) { return p; });
/// A constant of this shape, element by element or all `value`.
Var made(Tape& tape, const Shape& shape, const std::function<Real(const Position&)>& element);
Var filled(Tape& tape, const Shape& shape, Real value);
/// The sum of each row of x [..., n] in all of its elements.
Var repeated_row_sums(Var x);

// Elementwise functions that the engine has no op for.
Var logarithm(Var x);
Var square_root(Var x);
Var error_function(Var x);
/// a op b of equal shapes: add, subtract, multiply or divide.
Var composed_arithmetic(Op op, Var a, Var b);

Var composed_sum(Var x);
Var composed_scale(Var x, Real factor);
Var composed_soft_cap(Var x, Real cap);
Var composed_transpose(Var x, int first, int second);
std::vector<Var> composed_split(Var x, std::span<const Index> sizes);
Var composed_concat(Var a, Var b);
Var composed_product(Var a, Var b);  ///< of matrices, one for each leading index
Var composed_exponential(Var x);
Var composed_tanh(Var x);
Var composed_sigmoid(Var x);
Var composed_gelu(Var x);
Var composed_silu(Var x);
Var composed_softplus(Var x);
Var composed_softmax(Var x);
Var composed_layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon);
Var composed_rms_norm(Var x, std::optional<Var> weight, Real epsilon);
Var composed_linear(Var x, Var weight, std::optional<Var> bias);
Var composed_head_linear(Var x, Var weight, Index first, Index count, Stored stored);
Var composed_embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows);
Var composed_cross_entropy(Var logits, std::span<const std::int32_t> targets);
/// RoPE of the last elements of each head, as many as the table, of base kComposedTheta, has.
Var composed_rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position,
                    Rotation rotation, Index stride);
constexpr double kComposedTheta = 100;
/// Attention with the whole T x S matrix of weights of each head. On a training tape its dropout
/// agrees with that of `attention` if S is a multiple of 8.
Var composed_attention(Var q, std::span<const Rows> keys, const Rows& values,
                       const AttentionOptions& options);
/// Pooled rows: sums weighted by a softmax over the tokens of a block.
std::optional<Var> composed_pool_tokens(Var x, Var gates, Var bias);
/// Causal convolution: sum over the taps, each times the input that many tokens earlier; of these
/// sums the last `tokens`.
Var composed_causal_convolution(Var x, Var weight, Index first, Skip skip, Index tokens);
/// Gated delta rule, token by token, from a state of zeros.
Var composed_gated_delta_rule(Var q, Var k, Var v, Var g, Var beta);
Var composed_gated_linear_attention(Var q, Var k, Var v, Var g, std::optional<Var> beta);
/// Picks by a stable sort of the scores that a query sees, from products of all heads, [B, T, I,
/// R]. The lists live as long as the tape's step.
Picks composed_pick_rows(Var q, Var keys, std::optional<Var> weights, Real factor,
                         const TopK& sizes);
/// Mean of KL(p || softmax(scores)), query by query, from the logarithm of a softmax.
Var composed_index_loss(const Picks& picks);

}  // namespace headcount
