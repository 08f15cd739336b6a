#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "autograd/ops/attention_kernel.h"
#include "autograd/ops/attention_vectors.h"
#include "autograd/parallel.h"

/// Attention in tiles that stay in the first-level cache. A query is a (token, query head) pair;
/// queries that read the same KV head lie side by side in one vector, a strip. A tile has the
/// scores of a strip with some rows: [rows, lanes], so that a row of it is one vector, and what is
/// known of a query, such as its greatest score, is a lane. Rows of keys and values are read where
/// they lie. Hidden tiles are skipped. Dao et al., "FlashAttention" (2022). Not part of the public
/// interface.
namespace headcount::kernel {

// Rows of a tile; those of one query make longer ones, of which more are read at a time.
inline constexpr Index kTile = 64, kDecodeTile = 256;
inline Index tile_rows(const AttentionProblem& p) { return p.tokens == 1 ? kDecodeTile : kTile; }

// Rows [begin, end) of a source.
struct RowRange {
  const KeySource& source;
  Index begin, end;

  Index count() const { return end - begin; }
  // Calls body(tile) for its tiles, which end at multiples of `size`.
  template <class Body>
  void for_tiles(Index size, const Body& body) const {
    for (Index j = begin, next = 0; j < end; j = next) {
      next = std::min(end, (j / size + 1) * size);
      body(RowRange{source, j, next});
    }
  }
};

// Queries [first, first + lanes) of those that read KV head g of sequence b. Lanes without a query
// have zeros and see nothing.
struct Strip {
  const AttentionProblem& p;
  Index b, g, first, lanes;
  Index token[kWidth], head[kWidth];
  Index row[kWidth];                             // in a tensor [B, T, H, ...]
  alignas(kAlignment) Real factor[kWidth] = {};  // of the scores

  Strip(const AttentionProblem& problem, Index sequence, Index kv_head, Index first_query)
      : p(problem), b(sequence), g(kv_head), first(first_query) {
    const Index group = p.group();
    lanes = std::min(kWidth, p.tokens * group - first);
    Index t = first / group, h = first % group;
    for (Index lane = 0; lane < lanes; ++lane) {
      token[lane] = t;
      head[lane] = g * group + h;
      row[lane] = (b * p.tokens + t) * p.heads + head[lane];
      factor[lane] = p.row_factors == nullptr ? p.scale : p.row_factors[row[lane]];
      if (++h == group) ++t, h = 0;
    }
    std::fill(head + lanes, head + kWidth, head[0]);
  }
  Index head_of(const KeySlice& slice) const { return g * slice.heads / p.kv_heads; }

  // Copies the queries' rows of x [B, T, H, width], with zeros up to whole vectors.
  void gather(const Real* x, Index width, Real* to) const {
    const Index stride = padded(width);
    std::fill_n(to, kWidth * stride, Real{0});
    for (Index lane = 0; lane < lanes; ++lane)
      std::copy_n(x + row[lane] * width, width, to + lane * stride);
  }
  RowRange range(const KeySource& s) const {
    return {s, p.first_row(s, token[0]), p.end_row(s, token[lanes - 1])};
  }
  // Calls body(tile) for the tiles of all rows that these queries may see.
  template <class Body>
  void for_tiles(const Body& body) const {
    for (const KeySource& s : p.sources()) range(s).for_tiles(tile_rows(p), body);
  }
};

// Scratch of one thread.
class Workspace {
 public:
  Workspace(const AttentionProblem& p, Real* memory) : next_(memory) {
    const Index key_width = padded(p.key_width), value_width = padded(p.value_width);
    for (Real** const tile : {&scores, &d_scores, &scaled, &mask})
      *tile = take(tile_rows(p) * kWidth);
    for (Real** const of_keys : {&q, &q_columns, &dq_columns}) *of_keys = take(key_width * kWidth);
    for (Real** const of_values : {&dy, &dy_columns}) *of_values = take(value_width * kWidth);
    rows = take(std::max(key_width, value_width) * kWidth);
    key_rows = take(std::max(key_width, value_width) * tile_rows(p) + kWidth * 8);
    state = take((value_width + 2) * kWidth);
  }
  static Index size(const AttentionProblem& p) {
    const Index key_width = padded(p.key_width), value_width = padded(p.value_width);
    return kWidth * (4 * tile_rows(p) + 3 * key_width + 3 * value_width + 2) +
           (kWidth + tile_rows(p)) * std::max(key_width, value_width) + kWidth * 8;
  }

  Real *scores, *d_scores, *scaled, *mask;    // tiles [tile_rows, lanes]
  Real *q, *dy, *rows;                        // [lanes, width]
  Real *q_columns, *dq_columns, *dy_columns;  // [width, lanes]
  Real* key_rows;                             // [tile_rows, width]
  Real* state;                                // of a SoftmaxState

 private:
  Real* take(Index count) { return std::exchange(next_, next_ + count); }
  Real* next_;
};

// Calls body(task, workspace) for each task of [0, count) of `macs` multiply-accumulates, in
// parallel.
template <class Body>
void for_tasks(Tape& tape, const AttentionProblem& p, Index count, Index macs, const Body& body) {
  const Index threads_here = OnOneThread::active() ? 1 : threads(), size = Workspace::size(p);
  Real* const memory = tape.pool().take(threads_here * size);
  parallel_for(count, task_chunk(macs), [&](Index task) {
    Workspace w(p, memory + (threads_here == 1 ? 0 : this_thread() * size));
    body(task, w);
  });
  tape.pool().give_back(memory);
}

/// Rows of `tile` of a slice that a strip reads: a view, or a copy if the cache converts them, they
/// are gathered, or the ring buffer of the cache begins again within them.
ConstMatrix rows_of(const Strip& strip, const RowRange& tile, const KeySlice& slice, Real* copy);
/// Leaves the products of keys and queries in w.scores.
void multiply_keys(const Strip& strip, const RowRange& tile, const Workspace& w);
/// Sets the numbers of a tile where a query does not read the row to `hidden`.
void hide(const Strip& strip, const RowRange& tile, Real hidden, Real* numbers);
/// Leaves the scores for the softmax in w.scores: scaled, capped, gated, -infinity where a query
/// does not read the row. `scaled`, if not null, receives scores before the cap, 0 where a query
/// does not read the row.
void find_scores(const Strip& strip, const RowRange& tile, const Workspace& w,
                 Real* scaled = nullptr);
/// Writes the multipliers of dropout of a tile; `room` has 8 numbers more than the tile has rows.
void find_multipliers(const Strip& strip, const RowRange& tile, Real* multipliers, Real* room);

// One query of few heads leaves most lanes empty. Where nothing is hidden from it, its scores lie
// in rows [lanes, n] instead: exponentials are those of vectors of rows.
inline bool is_few(const Strip& strip) {
  constexpr Index kFewLanes = 8;
  return strip.p.tokens == 1 && strip.lanes <= kFewLanes && strip.p.dropout.threshold == 0 &&
         strip.p.sources().front().values.cache != nullptr;
}

inline void transpose_queries(const Strip& strip, const Workspace& w) {
  transpose(w.q, kWidth, padded(strip.p.key_width), w.q_columns);
}

// Calls body(strip, workspace) for strip `index` of the queries that read KV head g of sequence b,
// with their transpose unless `attend` needs none.
template <class Body>
void with_strip(const AttentionProblem& p, Index b, Index g, Index index, const Workspace& w,
                const Body& body) {
  const Strip strip(p, b, g, index * kWidth);
  strip.gather(p.q, p.key_width, w.q);
  if (!is_few(strip)) transpose_queries(strip, w);
  body(strip, w);
}

inline Index strip_count(const AttentionProblem& p) {
  return (p.tokens * p.group() + kWidth - 1) / kWidth;
}

// Multiply-accumulates of a strip with `rows` rows.
inline Index strip_macs(const AttentionProblem& p, Index rows) {
  return kWidth * rows * (p.key_width + p.value_width);
}

// Pairs of queries and rows, those within the reach of tiles that causality hides included.
inline Index pairs(const AttentionProblem& p) {
  Index rows = 0;
  for (const KeySource& s : p.sources())
    rows += s.window > 0 ? std::min(s.count, s.window + kTile) : s.count;
  return p.batch * p.heads * p.tokens * rows;
}

// Calls body(strip, workspace) for all strips, in parallel.
template <class Body>
void for_strips(Tape& tape, const AttentionProblem& p, const Body& body) {
  const Index strips = strip_count(p);
  for_tasks(tape, p, p.batch * p.kv_heads * strips, strip_macs(p, p.row_count()),
            [&](Index task, const Workspace& w) {
              const Index head = task / strips;
              with_strip(p, head / p.kv_heads, head % p.kv_heads, task % strips, w, body);
            });
}

}  // namespace headcount::kernel
