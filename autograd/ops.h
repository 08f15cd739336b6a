#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autograd/attention/attention.h"
#include "autograd/ops/rotary.h"
#include "autograd/ops/sequences.h"
#include "autograd/tape.h"

/// The ops: each is one function under `autograd/ops/` with shape check, forward pass and vjp. All
/// throw ShapeError that names the op and the shapes. Tensors are row-major; "[..., n]" is any
/// number of leading dimensions. Some ops (subtract, divide, sum, softmax) are here
/// because models of other kinds need them, although headcount itself uses them only in tests and
/// examples. The fused attention, rotary embedding and the other ops over tokens have headers of
/// their own.
namespace headcount {

// Elementwise arithmetic. `b` has the shape of `a`, or of its trailing dimensions; then it is
// repeated for every leading index.
Var add(Var a, Var b);
Var subtract(Var a, Var b);
Var multiply(Var a, Var b);
Var divide(Var a, Var b);
Var scale(Var x, Real factor);
Var sum(Var x);  ///< all elements, to a scalar

inline Var operator+(Var a, Var b) { return add(a, b); }
inline Var operator-(Var a, Var b) { return subtract(a, b); }
inline Var operator*(Var a, Var b) { return multiply(a, b); }
inline Var operator/(Var a, Var b) { return divide(a, b); }

// Shapes.
Var reshape(Var x, const Shape& shape);       ///< the same elements; no copy
Var transpose(Var x, int first, int second);  ///< dimensions `first` and `second` exchanged
Var columns(Var x, Index begin, Index size);  ///< [begin, begin + size) of the last dimension
std::vector<Var> split(Var x, std::span<const Index> sizes);  ///< along the last dimension
/// Joins a and b along the last dimension. A leading extent of `b` may be 1: then b is repeated
/// along it, as a key that all heads share.
Var concat(Var a, Var b);

/// a [..., m, k] times b [..., k, n]: equal leading dimensions, one product for each.
Var matrix_product(Var a, Var b);
/// x [..., in], weight [out, in], bias [out] -> x weight^T + bias, [..., out].
Var linear(Var x, Var weight, std::optional<Var> bias = std::nullopt);
/// How a product reads a stored matrix.
enum class Stored { as_is, transposed };
/// Product of each head of x [B, T, H, in] with a block of its own of `weight` [H block, r], of
/// which W_h are rows [first, first + count):
///     - as_is: x_h W_h with in = count -> [B, T, H, r]
///     - transposed: x_h W_h^T with in = r -> [B, T, H, count]
///
/// The op folds an expansion of latents into queries and outputs.
Var head_linear(Var x, Var weight, Index first, Index count, Stored stored);
/// Rows `ids` of table [n, width] -> [rows..., width]; `rows` has as many elements as `ids`.
Var embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows);

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; biased variance.
/// Ba, Kiros and Hinton, "Layer normalization" (2016).
Var layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon);
/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; the weight is optional.
/// Zhang and Sennrich, "Root mean square layer normalization" (2019).
Var rms_norm(Var x, std::optional<Var> weight, Real epsilon);

/// x Phi(x), the exact (erf) form; Hendrycks and Gimpel (2016)
Var gelu(Var x);
/// silu(gate) * up, the gate of SwiGLU; Shazeer (2020)
Var silu_gate(Var gate, Var up);
Var silu(Var x);                    ///< x sigmoid(x)
Var sigmoid(Var x);                 ///< 1 / (1 + e^-x)
Var softplus(Var x);                ///< log(1 + e^x)
Var exponential(Var x);             ///< e^x, at most half the greatest Real
Var sigmoid_gate(Var gate, Var x);  ///< sigmoid(gate) * x
Var soft_cap(Var x, Real cap);      ///< cap tanh(x / cap); Gemma 2, arXiv 2408.00118

/// Zero with probability `probability`, else x / (1 - probability), on a training tape; x itself
/// otherwise. The probability is rounded to a multiple of 1/65536.
Var dropout(Var x, Real probability);
/// Least probability of dropout but 0, and step between probabilities: masks have 16 bits.
inline constexpr Real kDropoutStep = Real{1} / 65536;

Var softmax(Var x);  ///< over the last dimension

// Attention op by op, every tensor kept, to read and to compare with: q [B, T, H, d], keys
// [B, S, G, d] and values [B, S, G, n]. Query head i reads KV head i / (H / G).

/// Scores, factor q k^T, [B, H, T, S].
Var plain_scores(Var q, Var keys, Real factor);
/// Sums of the values by weights [B, H, T, S] -> [B, T, H, n].
Var plain_sums(Var weights, Var values);
/// softmax(factor q k^T) v -> [B, T, H, n]. Query t of T sees keys up to S - T + t.
Var plain_attention(Var q, Var k, Var v, Real factor);

/// Mean of -log softmax(logits)[target], logits [..., n], over the rows whose target is not
/// kNoTarget. Throws ShapeError for any other target outside [0, n).
Var cross_entropy(Var logits, std::span<const std::int32_t> targets);

}  // namespace headcount
