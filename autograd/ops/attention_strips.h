#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/ops/attention_kernel.h"
#include "autograd/parallel.h"

/// Attention in tiles that stay in the first-level cache. A query is a (token, query head) pair;
/// queries that read the same KV head lie side by side in the lanes of a vector, a strip. A tile
/// has the scores of a strip with some rows: [rows, lanes], so that what is known of a query, such
/// as its greatest score, is a lane. The newest token alone may have fewer queries than a vector
/// has lanes: then a vector holds several rows. Rows of keys and values are read where they lie.
/// Hidden tiles are skipped. Dao et al., "FlashAttention" (2022). Not part of the public interface.
namespace headcount::kernel {

namespace simd = Eigen::internal;  // Eigen's vectors, the same for every instruction set
using Vector = simd::packet_traits<Real>::type;
inline constexpr Index kWidth = simd::packet_traits<Real>::size;
inline constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

inline Index padded(Index width) { return (width + kWidth - 1) / kWidth * kWidth; }
inline Vector broadcast(Real x) { return simd::pset1<Vector>(x); }
inline Vector load(const Real* x) { return simd::ploadu<Vector>(x); }
inline void store(Real* x, Vector v) { simd::pstoreu(x, v); }

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

// c = a b, or c += a b, for small matrices: c has whole vectors of columns and stays in registers
// block by block; nothing is copied.
void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write);

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
  const Index macs = strips * kWidth * rows * (p.key_width + p.value_width);
  parallel_with_scratch(tape.pool(), count, macs, Workspace::size(p),
                        [&](Index task, Real* memory) { body(task, Workspace(p, memory)); });
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

}  // namespace headcount::kernel
