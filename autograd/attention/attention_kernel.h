#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/product_kernels.h"

/// Attention in tiles that stay in the first-level cache. A query is a (token, query head) pair;
/// queries that read the same KV head lie side by side in the lanes of a vector, a strip. A tile
/// has the scores of a strip with some rows: [rows, lanes], so that what is known of a query, such
/// as its greatest score, is a lane. The newest token alone may have fewer queries than a vector
/// has lanes: then a vector holds several rows. Rows of keys and values are read where they lie.
/// Hidden tiles are skipped. Dao et al., "FlashAttention" (2022). Not part of the public interface.
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
  bool rounds = false;               ///< operands of products to bfloat16
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

namespace kernel {

using namespace vectors;
inline constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

inline Index padded(Index width) { return (width + kWidth - 1) / kWidth * kWidth; }

// exp(x), and exactly 0 for -infinity. Eigen's exp returns denormal numbers there: a query that
// sees no row would seem to see all of them, and arithmetic on denormals is slow.
inline Vector exp_or_zero(Vector x) {
  const Vector least = broadcast(std::numeric_limits<Real>::min());
  return simd::pmax(simd::psub(simd::pexp(x), least), broadcast(0));
}

// Replaces `count` numbers, rounded up to whole vectors, by what body returns for them.
template <class Body>
void replace(Real* x, Index count, const Body& body) {
  for (Real* const end = x + count; x < end; x += kWidth) store(x, body(load(x)));
}

// Rows of a tile; those of one token make longer ones, of which more are read at a time.
inline constexpr Index kTile = 64, kDecodeTile = 256;
inline Index tile_rows(const AttentionProblem& p) { return p.tokens == 1 ? kDecodeTile : kTile; }

// Scratch of one thread.
struct Workspace {
  Real *scores, *d_scores, *scaled, *mask;    // tiles [tile_rows, lanes]
  Real *q_columns, *dq_columns, *dy_columns;  // [width, lanes]
  Real *q, *dy;                               // [lanes, padded width]
  Real* state;                                // of a SoftmaxState
  Real *product, *key_rows;                   // [lanes, rows], [tile_rows, padded width]

  static Index widest(const AttentionProblem& p) {
    return padded(std::max(p.key_width, p.value_width)) + 2;
  }
  static Index size(const AttentionProblem& p) {
    const Index rows = tile_rows(p), widest = Workspace::widest(p);
    return kWidth * (5 * rows + 7 * widest) + rows * widest;
  }
  Workspace(const AttentionProblem& p, Real* memory) {
    const Index rows = tile_rows(p), widest = Workspace::widest(p);
    const auto take = [&](Index count) { return std::exchange(memory, memory + count); };
    for (Real** tile : {&scores, &d_scores, &scaled, &mask}) *tile = take(rows * kWidth);
    for (Real** of_queries : {&q_columns, &dq_columns, &dy_columns, &q, &dy, &state})
      *of_queries = take(widest * kWidth);
    product = take((rows + widest) * kWidth);
    key_rows = memory;
  }
};

// Rows [begin, begin + count) of a source.
struct Tile {
  const KeySource& source;
  Index begin, count;
};

// Queries that read one KV head of a sequence. Lanes without a query have zeros and see nothing.
struct Strip {
  const AttentionProblem& p;
  Index index;  // among all strips: those of a KV head and those of a sequence lie side by side
  Index b, g;
  Index queries, lanes;  // in use; all of a row of a tile, of which a vector holds whole ones
  // By lane.
  Index token[kWidth], head[kWidth];
  Index row[kWidth];                             // in a tensor [B, T, H, ...]
  alignas(kAlignment) Real factor[kWidth] = {};  // of the scores, over and over

  static Index count(const AttentionProblem& p) {  // of a KV head
    return (p.tokens * p.group() + kWidth - 1) / kWidth;
  }
  Strip(const AttentionProblem& problem, Index strip);

  // Completes numbers by lane for the other rows of a vector.
  void repeat(Real* numbers) const {
    for (Index lane = lanes; lane < kWidth; ++lane) numbers[lane] = numbers[lane - lanes];
  }
  Index head_of(const KeySlice& slice) const { return g * slice.heads / p.kv_heads; }
  // Writes the queries' rows of x [B, T, H, width] side by side, with zeros up to whole vectors.
  void gather(const Real* x, Index width, Real* to) const;
  // Writes the queries' rows of x as columns [width, lanes]; `put_rows` is the inverse.
  void get_columns(const Real* x, Index width, Real* to) const;
  void put_rows(const Real* columns, Index width, const GradientSink& x) const;
  // Calls body(tile) for the tiles of all rows that these queries may see, of those that are
  // [first, last) of all sources. Leaves the queries in w.q_columns.
  template <class Body>
  void for_tiles(const Workspace& w, Index first, Index last, const Body& body) const {
    const Index size = tile_rows(p);
    for (const KeySource& s : p.sources()) {
      const Index begin = std::max(p.first_row(s, token[0]) / 8 * 8, first - s.first_column);
      const Index end = std::min(p.end_row(s, token[queries - 1]), last - s.first_column);
      if (begin < end) get_columns(s.q, p.key_width, w.q_columns);
      for (Index j = begin, next = 0; j < end; j = next) {
        next = std::min(end, (j / size + 1) * size);
        body(Tile{s, j, next - j});
      }
    }
  }
  template <class Body>
  void for_tiles(const Workspace& w, const Body& body) const {
    for_tiles(w, 0, p.columns, body);
  }
  // Product of small matrices, to = left right or to += left right.
  void multiply(const Matrix& to, const ConstMatrix& left, const ConstMatrix& right,
                Write write) const {
    (p.rounds ? tiles::multiply : vectors::multiply)(to, left, right, write);
  }
  // Writes the product of a [rows, n] and `columns` [n, lanes] to c, or adds it.
  void product(const Workspace& w, Real* c, const ConstMatrix& a, const Real* columns,
               Write write) const;
  // Rows of `tile` of a slice: a view, or a copy if the cache converts them or if its ring buffer
  // begins again within them.
  ConstMatrix rows(const Tile& tile, const KeySlice& slice, Real* copy) const;
  // Leaves the products of keys and queries in w.scores.
  void multiply_keys(const Tile& tile, const Workspace& w) const;
  // Sets the numbers of a tile where a query does not read the row to `hidden`.
  void hide(const Tile& tile, Real hidden, Real* numbers) const;
  // Leaves the scores for the softmax in w.scores: scaled, capped, gated, -infinity where a query
  // does not read the row. `scaled`, if not null, receives them before gates and hiding.
  void find_scores(const Tile& tile, const Workspace& w, Real* scaled = nullptr) const;
  // Leaves the multipliers of dropout in w.mask.
  void find_multipliers(const Tile& tile, const Workspace& w) const;
};

// Calls body(task, workspace) for each task of [0, count) of so many strips with `rows` rows, in
// parallel.
template <class Body>
void for_tasks(Tape& tape, const AttentionProblem& p, Index count, Index strips, Index rows,
               const Body& body) {
  const std::int64_t macs = std::int64_t{strips} * kWidth * rows * (p.key_width + p.value_width);
  parallel_with_scratch(tape.pool(), count, macs, Workspace::size(p),
                        [&](Index task, Real* memory) {
                          const tiles::Scope scope(p.rounds);
                          body(task, Workspace(p, memory));
                        });
}

// Calls body(strip, workspace) for all strips: for `in_task` after each other in order, in parallel
// with others.
template <class Body>
void for_strips(Tape& tape, const AttentionProblem& p, Index in_task, const Body& body) {
  const Index all = p.batch * p.kv_heads * Strip::count(p);
  for_tasks(tape, p, all / in_task, in_task, p.columns, [&](Index task, const Workspace& w) {
    for (Index i = 0; i < in_task; ++i) body(Strip(p, task * in_task + i), w);
  });
}

}  // namespace kernel

}  // namespace headcount
