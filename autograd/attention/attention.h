#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autograd/cache/row_cache.h"
#include "autograd/tape.h"

/// The fused attention op, the rows that it reads, and the op that picks some of them.
namespace headcount {

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
  /// With `keeps_weights`: of keys [B, H, T, S] and of pooled rows [B, H, T, R] of each call.
  std::vector<Real> weights, pooled_weights;
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

/// Top-k rows of each query, or top-k blocks of rows, the only ones that it reads:
/// [B, T, lists, most], ascending, then -1 if the query picked fewer. A list is for H / lists
/// consecutive heads. The memory lives for one step of a tape.
struct PickedRows {
  const std::int32_t* rows = nullptr;
  Index most = 0;
  /// If not null, attention writes [B, T, lists, most] here: the weight of each picked row or
  /// block, summed over the heads of its list, without dropout; 0 after the last.
  Real* weights = nullptr;
  Index lists = 1;
  /// Rows of a block; block n has rows [n block - missing, (n + 1) block - missing), as far as they
  /// are there: a window may end within the first block.
  Index block = 1, missing = 0;

  /// Offset in `rows` and `weights` of a list of query t of sequence b, of T = `queries`.
  Index offset(Index b, Index t, Index queries, Index list) const {
    return ((b * queries + t) * lists + list) * most;
  }
  Index begin(std::int32_t n) const { return n * block - missing; }  ///< first row of block n
};

/// Pooled rows: row r stands for the block of `tokens` tokens that begins at token r `tokens`. A
/// query sees a row if the row's block ends at the query's token or before it. `keys` are as wide
/// as the queries.
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
  /// Attention sinks [H]: a learned, unscaled score per head that enlarges the softmax's
  /// denominator and adds no value. OpenAI, "gpt-oss" (2025).
  std::optional<Var> sinks = {};
  /// Log forget gates [B, S, H, 1] of the keys, at most 0. The score of query i and key j, after
  /// the scale and the cap, grows by the sum of the gates of tokens j + 1 .. i. Null: no gates.
  const Rows* log_gates = nullptr;
  /// Rows of single tokens that each query reads, within the window if there is one; for causal
  /// attention without a key mask. None: queries read all rows that they see.
  std::optional<PickedRows> picked = {};
  /// A second group of rows in the same softmax.
  std::optional<PooledRows> pooled = {};
};

/// The fused op: computes plain_attention, softmax(scale q k^T) v for each head, in tiles:
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
/// On a tape in bf16, products of 64 queries or more round their operands where that is faster.
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

/// The rows that the only query of each sequence picked, as a constant of `tape` [B, count, heads,
/// width], of blocks those of as many blocks and the last one; if they are fewer, zeros follow. A
/// cache of any type converts these rows only.
Var read_rows(Tape& tape, const Rows& rows, const PickedRows& picked);

/// Sizes of `pick_rows`.
struct TopK {
  Index most = 1;            ///< rows that a query picks, if it sees as many
  Index tokens = 1;          ///< tokens that a row stands for: 1, or the size of a pooled block
  Index first_position = 0;  ///< position of the first query
  Index window = 0;          ///< rows that a query sees at most, the last ones; 0: all
  Index first_row = 0;       ///< number, among the text's rows, of the first row of `keys`
  Index block = 1;           ///< rows of a block, without weights; they begin at the text's row 0
  Index lists = 1;           ///< of a query, without weights; each is of I / lists heads
};
/// Rows that an indexer picked, and their scores [B, T, most], or [B, T, lists, most] with several
/// lists; 0 after the last.
struct Picks {
  PickedRows picked;
  Var scores;
};
/// Top-k of the rows that each query sees (see PooledRows), by the scores of an indexer with I
/// heads:
///     - q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I]
///     - score of query t and row r: scale times the sum over h of
///       weights[t, h] max(0, q[t, h] k[r])
///
/// Without weights, the blocks with the greatest scores for each list, one of which is always the
/// query's own: scale times the greatest q[t, h] k[r] of the list's heads h and of the rows r of a
/// block that the query sees, of single tokens. MiniMax, "MiniMax-M3" (2026).
///
/// Of equal scores, as the many zeros, those of earlier rows win. No gradient flows through a
/// choice. Scores are computed for some queries at a time, and again in backward: no T x R tensor
/// is kept. DeepSeek-AI, "DeepSeek-V3.2" (2025).
Picks pick_rows(Var q, Var keys, std::optional<Var> weights, Real scale, const TopK& sizes);
/// Mean over the queries of KL(p || softmax(s)), a scalar: how far the scores s of a query's picked
/// rows are from the weights that attention gave to them, p, divided by their sum. A query without
/// rows or weights adds 0. The weights are constants. DeepSeek-AI, "DeepSeek-V3.2" (2025), of which
/// it is the loss over picked tokens.
Var index_loss(const Picks& picks);

}  // namespace headcount
