#pragma once

#include <optional>
#include <span>

#include "autograd/tape.h"

/// Ops over the tokens of a sequence that are no attention: convolution, pooling, recurrence.
namespace headcount {

/// Term that a convolution adds to its sums: none, or its input (a residual connection).
enum class Skip { none, input };

/// Causal convolution of each channel with K taps: x [B, T, C], weight [channels, 1, K] of which
/// rows [first, first + C) are used,
///     y[b, t, c] = sum over j < K of weight[first + c, 0, j] x[b, t - (K - 1) + j, c]
/// plus x[b, t, c] with Skip::input, which saves a pass over x and one over its gradient. Inputs
/// before the first token are zeros. y has the last `tokens` tokens; none: all.
Var causal_convolution(Var x, Var weight, Index first, Skip skip = Skip::none,
                       std::optional<Index> tokens = {});

/// One row for each block of m tokens that is complete: x, gates [B, T, D] and bias [m, D] -> [B,
/// T / m, D], each channel on its own,
///     y[b, r] = sum over j < m of softmax over j(gates[b, r m + j] + bias[j]) x[b, r m + j]
/// Nothing if no block is complete. Softmax over the last dimension and products of matrices would
/// need four transposed copies of x and gates, and a product of 1 x m by m x 1 for every number.
/// DeepSeek-V4 (2026).
std::optional<Var> pool_tokens(Var x, Var gates, Var bias);

/// Gated delta rule. Each head has a state S [Dk, Dv] that a token scales by e^g, corrects by beta
/// of the error of its answer to the key, and asks the query:
///     S_t = e^g_t o S_{t-1} + k_t (beta_t (v_t - k_t^T (e^g_t o S_{t-1})))^T,  y_t = q_t^T S_t
/// q, k [B, T, G, Dk], v [B, T, H, Dv], beta [B, T, H], and g <= 0: [B, T, H], [B, T, H, Dk] with a
/// decay for each row of S, or a constant [H] for all tokens -> [B, T, H, Dv]; H is a multiple of
/// G, and head i reads q and k of head i / (H / G). S is bounded if keys have at most unit length
/// and beta lies in [0, 1]. The first state is `state` [B, H, Dk, Dv], which is replaced by the
/// last one; empty: zeros. With `state` there are no gradients.
///
/// Computed token by token; every 64th state is kept for backward. Yang, Kautz and Hatamizadeh,
/// "Gated delta networks" (2024); Kimi Team, "Kimi Linear" (2025), with a decay for each row.
Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state = {});

/// Gated linear attention: the gated delta rule without the correction,
/// S_t = e^g_t o S_{t-1} + k_t (beta_t v_t)^T; without `beta` it is 1. Dao and Gu, "Transformers
/// are SSMs" (2024), with a decay for each head; Yang et al., "Gated linear attention transformers"
/// (2023), for each row; Qin et al., "Lightning attention-2" (2024), with fixed ones.
Var gated_linear_attention(Var q, Var k, Var v, Var g, std::optional<Var> beta = {},
                           std::span<Real> state = {});

}  // namespace headcount
