#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autograd/tape.h"

/// The ops: each one shape check, forward and vjp in one function of one file under
/// `autograd/ops/`. All throw ShapeError that names the op and the shapes. Tensors are row-major;
/// "[..., n]" is any number of leading dimensions.
namespace headcount {

// Elementwise arithmetic. `b` has the shape of `a`, or of its trailing dimensions, and is then
// used for every leading index.
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
std::vector<Var> split(Var x, std::span<const Index> sizes);  ///< along the last dimension
/// Along the last dimension. In `b` any leading extent may be 1: it is then repeated (the rotary
/// key that all heads of MLA share).
Var concat(Var a, Var b);

/// a [..., m, k] times b [..., k, n]: equal leading dimensions, one product for each.
Var matrix_product(Var a, Var b);
/// x [..., in], weight [out, in], bias [out] -> x weight^T + bias, [..., out].
Var linear(Var x, Var weight, std::optional<Var> bias = std::nullopt);
/// Rows `ids` of table [n, width] -> [rows..., width]; `rows` has as many elements as `ids`.
Var embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows);

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; biased variance.
/// Ba, Kiros and Hinton, "Layer normalization" (2016).
Var layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon);
/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; without weight if there is none.
/// Zhang and Sennrich, "Root mean square layer normalization" (2019).
Var rms_norm(Var x, std::optional<Var> weight, Real epsilon);

Var gelu(Var x);                  ///< x Phi(x), the exact (erf) form; Hendrycks and Gimpel (2016)
Var silu(Var x);                  ///< x sigmoid(x)
Var silu_gate(Var gate, Var up);  ///< silu(gate) * up, the gate of SwiGLU; Shazeer (2020)

/// Zero with probability `probability`, else x / (1 - probability), on a training tape; x itself
/// otherwise. The probability is rounded to a multiple of 1/65536.
Var dropout(Var x, Real probability);

/// Which elements of a head form the pairs that rotary embedding turns.
enum class RotaryLayout {
  half,         ///< (j, j + dim/2): Llama
  interleaved,  ///< (2j, 2j + 1): the paper, DeepSeek
};

/// Cosines and sines of position * theta^(-2j/dim), one row of dim/2 each per position.
class RotaryTable {
 public:
  /// Throws ShapeError if `dim` is odd.
  RotaryTable(Index dim, Index positions, double theta);

  Index dim() const { return dim_; }
  Index positions() const { return positions_; }
  const Real* cosines(Index position) const { return cosines_.data() + position * (dim_ / 2); }
  const Real* sines(Index position) const { return sines_.data() + position * (dim_ / 2); }

 private:
  Index dim_, positions_;
  std::vector<Real> cosines_, sines_;
};

/// Rotary position embedding of the last `table.dim()` elements of each head of x [B, T, H, D];
/// the elements before them pass through. Position of token t is `first_position` + t. The table
/// must outlive the backward pass. Su et al., "RoFormer" (2021).
Var rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position = 0);

Var softmax(Var x);  ///< over the last dimension

/// What a row of scores is multiplied by before the softmax, besides the scale.
enum class RowScale {
  one,
  inverse_norm,         ///< 1 / Euclidean norm of the row's visible scores
  inverse_sqrt_length,  ///< 1 / sqrt(number of keys that the row sees)
};

struct AttentionOptions {
  Real scale = 1;
  bool causal = true;  ///< query t of T sees keys up to S - T + t
  Index window = 0;    ///< with causal: sees only the last `window` of those; 0: all
  RowScale row_scale = RowScale::one;
  Real dropout = 0;  ///< of the attention weights, on a training tape
  /// [B, S], 1 = key may be seen; empty: all may. A query that sees no key gives zeros.
  std::span<const std::uint8_t> key_mask = {};
};

/// softmax(scale q k^T) v for each head: q [B, T, H, Dk], k [B, S, G, Dk], v [B, S, G, Dv] ->
/// [B, T, H, Dv]. H is a multiple of G; query head i reads key/value head i / (H / G).
///
/// Computed in tiles with a running maximum and sum, and recomputed in backward from the saved
/// logsumexp, so that no T x S tensor is kept; tiles that no query of theirs may see are skipped.
/// Dao et al., "FlashAttention" (2022); Ainslie et al., "GQA" (2023).
Var attention(Var q, Var k, Var v, const AttentionOptions& options);

/// Mean over rows of -log softmax(logits)[target]: logits [..., n], one target in [0, n) per row.
Var cross_entropy(Var logits, std::span<const std::int32_t> targets);

}  // namespace headcount
