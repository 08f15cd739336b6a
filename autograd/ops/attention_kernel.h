#pragma once

#include <array>
#include <functional>
#include <span>

#include "autograd/ops.h"
#include "autograd/ops/support.h"

/// The kernel of `attention`, for training, prefill and decoding. Not part of the public interface.
namespace headcount {

/// Greatest number of slices that the columns of keys may be split into.
inline constexpr std::size_t kMaxKeySlices = 4;

/// Columns of keys or values: of a tensor [B, S, heads, n] on the tape, or of a cache's rows.
struct KeySlice {
  Index heads = 0, width = 0;
  const Real* data = nullptr;  ///< of slot 0; null: the cache converts its rows
  Index block = 1;           ///< size of the blocks in which columns are read rotated; 1: none are
  Real* gradient = nullptr;  ///< to add to, laid out as `data`; null: none is wanted
  Index sequence_stride = 0, slot_stride = 0, head_stride = 0;
  Index slots = 0, oldest = 0;  ///< row r lies in slot (oldest + r) % slots
  const RowCache* cache = nullptr;
  Var x = {};              ///< the tensor, of no tape if there is a cache
  Index first_column = 0;  ///< of the tensor's or the cache's rows

  KeySlice() = default;
  KeySlice(Tape& tape, const Rows& rows);
  /// Size of the blocks in which the cache can give these columns rotated; 1: it cannot.
  Index rotated_blocks() const {
    const Index size = cache == nullptr ? 1 : cache->block();
    return first_column % size == 0 && width % size == 0 ? size : 1;
  }
  /// Reads the columns in rotated blocks of that size from here on.
  void read_rotated(Index size);
  /// Rows of a head from slot `at` on, which a cache may convert into `copy`.
  ConstMatrix read(Index b, Index head, Index at, Index count, Real* copy) const {
    const auto how = block == cache->block() ? &RowCache::read_stored : &RowCache::read;
    return (cache->*how)(b, head, at, count, first_column, width, copy);
  }
  Index slot(Index row) const { return (oldest + row) % slots; }
  /// Place of a row's first number in `data` and `gradient`.
  Index offset(Index b, Index row, Index head) const {
    return b * sequence_stride + slot(row) * slot_stride + head * head_stride;
  }
};

/// Rows that a softmax goes over: those of single tokens, or pooled ones.
struct KeySource {
  std::array<KeySlice, kMaxKeySlices> slices = {};  ///< of the keys, side by side
  std::size_t slice_count = 0;
  KeySlice values = {};
  const Real* q = nullptr;  ///< [B, T, H, Dk]: queries, rotated as the keys are
  Index count = 0;          ///< rows that the queries may see
  Index block = 0;          ///< tokens that a pooled row stands for; 0: rows of single tokens
  Index window = 0;         ///< the last rows that a query sees; 0: all
  PickedRows picked = {};   ///< rows that each query reads; null: all that it sees
  Index first_column = 0;   ///< of these rows among those of all sources; a multiple of 8
  std::span<KeySlice> keys() { return {slices.data(), slice_count}; }
  std::span<const KeySlice> keys() const { return {slices.data(), slice_count}; }
};

/// One call of `attention`. Indices: b sequence, t query token, h query head, g KV head, j key row.
struct AttentionProblem {
  Index batch = 0, tokens = 0, heads = 0;
  Index kv_heads = 1;  ///< least common multiple of the heads of all slices
  Index key_width = 0, value_width = 0;
  std::array<KeySource, 2> all_sources = {};
  std::size_t source_count = 1;
  Index columns = 0;  ///< of the rows of all sources
  Real scale = 1, cap = 0;
  RowScale row_scale = RowScale::one;
  bool causal = true;
  Index first_position = 0;                ///< of the first query, for pooled rows
  const Real* sinks = nullptr;             ///< [H], or null
  const double* gate_sums = nullptr;       ///< [B, S, H]: sums of log gates up to each key, or null
  const std::uint8_t* key_mask = nullptr;  ///< [B, S], or null
  Dropout dropout = {};
  RowSoftmax* softmax = nullptr;     ///< [B, T, H]
  Real* row_factors = nullptr;       ///< [B, T, H]: scale times the row's own factor; null: `scale`
  GradientSink q_gradient = {};      ///< [B, T, H, Dk]
  Real* sink_gradients = nullptr;    ///< [B, H], to add to; or null
  Real* gradients_of_row = nullptr;  ///< [B, S, H], to add the sums of those of scores to; or null

  std::span<const KeySource> sources() const { return {all_sources.data(), source_count}; }
  std::span<KeySource> sources() { return {all_sources.data(), source_count}; }
  Index group() const { return heads / kv_heads; }
  bool masks(Index b, Index j) const {
    return key_mask != nullptr && key_mask[b * all_sources.front().count + j] == 0;
  }
  /// Place in a tensor [B, S, H] of head h of the row j of a single token; `row_of_query` is token
  /// t's.
  Index gate(Index b, Index j, Index h) const {
    return (b * all_sources.front().count + j) * heads + h;
  }
  Index row_of_query(Index t) const {
    return std::max<Index>(0, all_sources.front().count - tokens + t);
  }
  /// Query t may see rows [first_row(s, t), end_row(s, t)) of s.
  Index end_row(const KeySource& s, Index t) const {
    if (s.block > 0) return std::min(s.count, (first_position + t + 1) / s.block);
    return causal ? s.count - tokens + t + 1 : s.count;
  }
  Index first_row(const KeySource& s, Index t) const {
    return s.window > 0 ? std::max<Index>(0, end_row(s, t) - s.window) : 0;
  }
};

/// Writes the output y [B, T, H, Dv] and `softmax`.
void attention_forward(Tape& tape, const AttentionProblem& p, Real* y);
/// Writes or adds all gradients that are wanted; dy is that of y.
void attention_backward(Tape& tape, const AttentionProblem& p, const Real* y, const Real* dy);

/// Weights, without dropout, that query head h of token t gives to rows [j, j + count) of `source`:
/// number r is `weights[r * stride]`. `log_weights` are -infinity where a row is not read.
struct RowWeights {
  Index b, t, h;
  const KeySource& source;
  Index j, count, stride;
  const Real *weights, *log_weights;
};
/// Calls `body` for all rows that queries may see, in parallel over the sequences, in the order of
/// the heads.
void visit_weights(Tape& tape, const AttentionProblem& p,
                   const std::function<void(const RowWeights&)>& body);

}  // namespace headcount
