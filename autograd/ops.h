#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "autograd/cache/row_cache.h"
#include "autograd/tape.h"

/// The ops: each is one function under `autograd/ops/` with shape check, forward pass and vjp. All
/// throw ShapeError that names the op and the shapes. Tensors are row-major; "[..., n]" is any
/// number of leading dimensions. Some ops (subtract, divide, sum, softmax) are here
/// because models of other kinds need them, although headcount itself uses them only in tests and
/// examples.
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

/// Pairs of elements of a head that rotary embedding rotates.
enum class RotaryLayout {
  half,         ///< (j, j + dim/2): Llama
  interleaved,  ///< (2j, 2j + 1): the paper, DeepSeek
};

/// Cosines and sines of position * theta^(-2j/dim), one row of dim/2 each per position. Tables of
/// equal sizes, as the layers of a model have them, share their numbers, which take no memory
/// before they are first read.
class RotaryTable {
 public:
  struct Angles {
    std::vector<Real> cosines, sines;  ///< [positions, dim / 2]
    std::once_flag made;
  };
  /// Table for positions 0 .. positions - 1. Throws ShapeError unless `dim` is even and at least 2.
  RotaryTable(Index dim, Index positions, double theta);

  Index dim() const { return dim_; }
  Index positions() const { return positions_; }
  const Angles& angles() const;  ///< any thread may call it

 private:
  Index dim_, positions_;
  double theta_;
  std::shared_ptr<Angles> angles_;
};

enum class Rotation { forward, inverse };

/// Rotary position embedding of the last `table.dim()` elements of each head of x [B, T, H, D];
/// the elements before them pass through. Position of token t is `first_position` + t `stride`. The
/// table must outlive the backward pass. Su et al., "RoFormer" (2021).
Var rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position = 0,
           Rotation rotation = Rotation::forward, Index stride = 1);

Var softmax(Var x);  ///< over the last dimension

/// Factor of a row of scores before the softmax, besides the scale.
enum class RowScale {
  one,
  inverse_norm,         ///< 1 / Euclidean norm of the row's visible scores
  inverse_sqrt_length,  ///< 1 / sqrt(number of keys that the row sees)
};

/// Statistics of the attention weights before dropout: entropy of their rows, sinks included, and,
/// if asked for, the weights of the keys.
struct AttentionStats {
  double entropy_sum = 0;  ///< over the rows, nats
  Index rows = 0;          ///< queries of all heads that see a key or have a sink
  bool keeps_weights = false;
  std::vector<Real> weights;         ///< [B, H, T, S] of each call, if `keeps_weights`
  std::vector<Real> pooled_weights;  ///< of pooled rows, [B, H, T, R] of each call; likewise
};

/// View of the rows that attention reads as keys or values: columns [first, first + width) of each
/// head of a tape's value x [B, S, heads, n] or of the tokens in a cache. Nothing is copied.
class Rows {
 public:
  Rows(Var x) : x_(x), width_(x.shape().last()) {}
  /// The rows of the `tokens` tokens in `cache`, which must outlive the tape's step.
  Rows(const RowCache& cache, Index tokens)
      : cache_(&cache), tokens_(tokens), width_(cache.width()) {}

  /// Columns [first, first + width) of these rows. Throws ShapeError if there are fewer columns.
  Rows columns(Index first, Index width) const;

  const RowCache* cache() const { return cache_; }  ///< null: a tape's value
  Var x() const { return x_; }                      ///< the tape's value, if there is no cache
  Index tokens() const { return tokens_; }          ///< tokens written to the cache so far
  Index first() const { return first_; }
  Index width() const { return width_; }
  Shape shape() const;  ///< [B, S, heads, width]

 private:
  Var x_;
  const RowCache* cache_ = nullptr;
  Index tokens_ = 0, first_ = 0, width_ = 0;
};

/// Rows that each query picked among those that it sees, and reads alone: [B, T, most] in ascending
/// order; where a query picked fewer, -1 follows. The memory is that of a tape's step.
struct PickedRows {
  const std::int32_t* rows = nullptr;
  Index most = 0;
  /// If not null, attention writes [B, T, most] here: the weight of each picked row, summed over
  /// the heads, without dropout; 0 after the last.
  Real* weights = nullptr;

  /// List of query t of sequence b, of T.
  const std::int32_t* of(Index b, Index t, Index queries) const {
    return rows + (b * queries + t) * most;
  }
};

/// Rows that stand for a block of `tokens` tokens each, row r for the tokens from r `tokens` on. A
/// query sees a row if all tokens of its block are there, up to the query's own. `keys` are one
/// part, as wide as the queries.
struct PooledRows {
  Rows keys, values;
  Index tokens;
  std::optional<PickedRows> picked = {};  ///< none: queries read all rows that they see
};

struct AttentionOptions {
  Real scale = 1;
  bool causal = true;  ///< query t of T sees keys up to S - T + t
  Index window = 0;    ///< causal attention sees only the last `window` of those keys; 0: all
  RowScale row_scale = RowScale::one;
  /// Scores s become cap tanh(s / cap), after the scale; not with RowScale::inverse_norm. 0: no
  /// cap. Gemma Team, "Gemma 2" (2024).
  Real cap = 0;
  /// Dropout probability of the attention weights on a training tape; default: the tape's.
  std::optional<Real> dropout = {};
  /// [B, S], 1: the key may be seen; empty: all may. The output of a query that sees no key is 0.
  std::span<const std::uint8_t> key_mask = {};
  AttentionStats* stats = nullptr;  ///< if not null, receives the statistics of this call
  /// [H]: a score of each head, not scaled, that takes part in the softmax and that no value
  /// answers, as if a key with that score and the value 0 stood in front. OpenAI, "gpt-oss" (2025).
  std::optional<Var> sinks = {};
  /// [B, S, H, 1]: log forget gates of the keys, at most 0. To the score of query i and key j,
  /// after the scale and the cap, the sum of those of tokens j + 1 .. i is added. Null: no gates.
  const Rows* log_gates = nullptr;
  /// Rows of single tokens that each query reads, within the window if there is one; for causal
  /// attention without a key mask. None: queries read all rows that they see.
  std::optional<PickedRows> picked = {};
  /// A second group of rows in the same softmax.
  std::optional<PooledRows> pooled = {};
};

// Attention op by op, every tensor kept, to read and to compare with: q [B, T, H, d], keys
// [B, S, G, d] and values [B, S, G, n]. Query head i reads KV head i / (H / G).

/// Scores, factor q k^T, [B, H, T, S].
Var plain_scores(Var q, Var keys, Real factor);
/// Sums of the values by weights [B, H, T, S] -> [B, T, H, n].
Var plain_sums(Var weights, Var values);
/// softmax(factor q k^T) v -> [B, T, H, n]. Query t of T sees keys up to S - T + t.
Var plain_attention(Var q, Var k, Var v, Real factor);

/// The fused op: computes this, softmax(scale q k^T) v for each head, in tiles:
///     - q [B, T, H, Dk]
///     - keys in parts side by side, part p [B, S, G_p, D_p] with sum of D_p = Dk; scores are sums
///       over the parts
///     - values [B, S, G_v, Dv] -> [B, T, H, Dv]
///
/// H is a multiple of each G. Query head i reads head i / (H / G) of a part: with G = H its own,
/// with G = 1 the one that all share.
///
/// Tiles have a running maximum and sum, and backward recomputes them from both, which are saved:
/// no T x S tensor is kept. Tiles that are hidden from all their queries are skipped. Dao et al.,
/// "FlashAttention" (2022); Ainslie et al., "GQA" (2023).
///
/// Forget gates (Lin et al., "Forgetting transformer", 2025) are given as logs of single tokens: a
/// score needs the difference of two of their running sums, which cancel. The op keeps these sums
/// in double, so that a difference is as exact after a million tokens as after ten.
///
/// Rows of a cache are constants; if other inputs need gradients beside them, it throws ShapeError.
/// With T = 1 and all rows in caches, each cached number is read once, in the type it is stored in.
/// With T > 1 the caches must still hold every token.
Var attention(Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options);
/// Attention whose keys are one part.
inline Var attention(Var q, const Rows& keys, const Rows& values, const AttentionOptions& options) {
  return attention(q, std::span(&keys, 1), values, options);
}

/// The rows as a value of `tape` [B, S, heads, width]: x itself, columns of it, or a copy of the
/// cached rows in the order of their tokens.
Var read_rows(Tape& tape, const Rows& rows);

/// The rows that the only query of each sequence picked, as a constant of `tape` [B, most, heads,
/// width]; if they are fewer, zeros follow. A cache of any type converts these rows only.
Var read_rows(Tape& tape, const Rows& rows, const PickedRows& picked);

/// Sizes of `pick_rows`.
struct TopK {
  Index most = 1;            ///< rows that a query picks, if it sees as many
  Index tokens = 1;          ///< that a row stands for
  Index first_position = 0;  ///< of the first query
  Index window = 0;          ///< rows that a query sees at most, the last ones; 0: all
  Index first_row = 0;       ///< the text's row that is row 0 here
};
/// Rows that an indexer picked, and their scores [B, T, most], 0 after the last.
struct Picks {
  PickedRows picked;
  Var scores;
};
/// The `most` rows with the greatest scores among those that each query sees (see PooledRows), by
/// the I heads of an indexer:
///     - q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I]
///     - score of query t and row r: scale times the sum over h of
///       weights[t, h] max(0, q[t, h] k[r])
///
/// Of equal scores, as the many zeros, those of earlier rows win. No gradient flows through a
/// choice. Scores are computed for some queries at a time, and again in backward: no T x R tensor
/// is kept. DeepSeek-AI, "DeepSeek-V3.2" (2025).
Picks pick_rows(Var q, Var keys, Var weights, Real scale, const TopK& sizes);
/// Mean over the queries of KL(p || softmax(s)), a scalar: how far the scores s of a query's picked
/// rows are from the weights that attention gave to them, p, divided by their sum. A query without
/// rows or weights adds 0. The weights are constants. DeepSeek-AI, "DeepSeek-V3.2" (2025), of which
/// it is the loss over picked tokens.
Var index_loss(const Picks& picks);

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
/// q, k [B, T, G, Dk], v [B, T, H, Dv], beta [B, T, H], and g <= 0: [B, T, H], or [B, T, H, Dk]
/// with a decay for each row of S -> [B, T, H, Dv]; H is a multiple of G, and head i reads q and k
/// of head i / (H / G). S is bounded if keys have at most unit length and beta lies in [0, 1]. The
/// first state is `state` [B, H, Dk, Dv], which is replaced by the last one; empty: zeros. With
/// `state` there are no gradients.
///
/// Computed token by token; every 64th state is kept for backward. Yang, Kautz and Hatamizadeh,
/// "Gated delta networks" (2024); Kimi Team, "Kimi Linear" (2025), whose decays are those of rows.
Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state = {});

/// Mean of -log softmax(logits)[target], logits [..., n], over the rows whose target is not
/// kNoTarget. Throws ShapeError for any other target outside [0, n).
Var cross_entropy(Var logits, std::span<const std::int32_t> targets);

}  // namespace headcount
