#include "autograd/ops/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/parallel.h"
#include "autograd/products.h"

// Attention in tiles that stay in the first-level cache. A query is a (token, query head) pair;
// queries that read the same KV head lie side by side in one vector, a strip. A tile has the scores
// of a strip with some rows: [rows, lanes], so that a row of it is one vector, and what is known of
// a query, such as its greatest score, is a lane. Rows of keys and values are read where they lie.
// Hidden tiles are skipped. Dao et al., "FlashAttention" (2022).
namespace headcount {

KeySlice::KeySlice(Tape& tape, const Rows& rows)
    : width(rows.width()), cache(rows.cache()), x(rows.x()), first_column(rows.first()) {
  const Shape shape = rows.shape();
  heads = shape[2];
  if (cache == nullptr) {
    const Index row_width = tape.shape(x).last();
    data = tape.value(x) + first_column;
    slots = shape[1];
    head_stride = row_width;
    slot_stride = heads * row_width;
    sequence_stride = slots * slot_stride;
    return;
  }
  slots = cache->capacity();
  oldest = cache->overwritten(rows.tokens()) ? cache->slot(rows.tokens()) : 0;
  slot_stride = cache->width();
  head_stride = slots * slot_stride;
  sequence_stride = heads * head_stride;
  if (!cache->converts()) data = cache->read(0, 0, 0, 1, first_column, width, nullptr).data;
}

namespace {

namespace simd = Eigen::internal;  // Eigen's vectors, the same for every instruction set
using Vector = simd::packet_traits<Real>::type;
constexpr Index kWidth = simd::packet_traits<Real>::size;
// Rows of a tile; those of one query make longer ones, of which more are read at a time.
constexpr Index kTile = 64, kDecodeTile = 256;
Index tile_rows(const AttentionProblem& p) { return p.tokens == 1 ? kDecodeTile : kTile; }
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

Index padded(Index width) { return (width + kWidth - 1) / kWidth * kWidth; }
Vector broadcast(Real x) { return simd::pset1<Vector>(x); }
Vector load(const Real* x) { return simd::ploadu<Vector>(x); }
void store(Real* x, Vector v) { simd::pstoreu(x, v); }

// exp(x), and exactly 0 for -infinity. Eigen's exp returns denormal numbers there: a query that
// sees no row would seem to see all of them, and arithmetic on denormals is slow.
Vector exp_or_zero(Vector x) {
  const Vector least = broadcast(std::numeric_limits<Real>::min());
  return simd::pmax(simd::psub(simd::pexp(x), least), broadcast(0));
}
template <class Numbers>
auto exp_or_zero(const Eigen::ArrayBase<Numbers>& x) {
  return (x.derived().exp() - std::numeric_limits<Real>::min()).max(Real{0});
}

// Element (i, k) lies at i * row + k * depth.
struct Operand {
  const Real* data;
  Index row, depth;
  explicit Operand(const ConstMatrix& m)
      : data(m.data), row(m.transposed ? 1 : m.stride), depth(m.transposed ? m.stride : 1) {}
};

template <int kRows, int kVectors>
void multiply_block(Real* c, Index c_stride, const Operand& a, const Real* b, Index b_stride,
                    Index depth, Write write) {
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sums[i][v] = write == Write::add ? load(c + i * c_stride + v * kWidth) : broadcast(0);
  }
  const Real* column = a.data;
  for (Index k = 0; k < depth; ++k, column += a.depth, b += b_stride) {
    Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = load(b + v * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector factor = broadcast(column[i * a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = simd::pmadd(factor, x[v], sums[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(c + i * c_stride + v * kWidth, sums[i][v]);
  }
}

template <int kVectors>
void multiply_columns(const Matrix& c, Operand a, const Real* b, Index b_stride, Index depth,
                      Write write) {
  Real* to = c.data;
  Index i = 0;
  const auto rows = [&]<int kRows>() {
    for (; i + kRows <= c.rows; i += kRows, to += kRows * c.stride, a.data += kRows * a.row)
      multiply_block<kRows, kVectors>(to, c.stride, a, b, b_stride, depth, write);
  };
  rows.template operator()<8>();
  rows.template operator()<4>();
  rows.template operator()<1>();
}

// c = a b, or c += a b, for small matrices: c has whole vectors of columns and stays in registers
// block by block; nothing is copied.
void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  Index j = 0;
  const auto columns = [&]<int kVectors>() {
    for (; j + kVectors * kWidth <= c.cols; j += kVectors * kWidth)
      multiply_columns<kVectors>({c.data + j, c.rows, kVectors * kWidth, c.stride}, Operand(a),
                                 b.data + j, b.stride, a.cols, write);
  };
  columns.template operator()<2>();
  columns.template operator()<1>();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // a vector type as argument of a template
// Transposes x [rows, cols], both whole numbers of vectors.
void transpose(const Real* x, Index rows, Index cols, Real* to) {
  for (Index r = 0; r < rows; r += kWidth) {
    for (Index c = 0; c < cols; c += kWidth) {
      simd::PacketBlock<Vector, kWidth> block;
      for (Index i = 0; i < kWidth; ++i) block.packet[i] = load(x + (r + i) * cols + c);
      simd::ptranspose(block);
      for (Index i = 0; i < kWidth; ++i) store(to + (c + i) * rows + r, block.packet[i]);
    }
  }
}

#pragma GCC diagnostic pop

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

// Rows of `tile` of a slice that a strip reads: a view, or a copy if the cache converts them, they
// are gathered, or the ring buffer of the cache begins again within them.
ConstMatrix rows_of(const Strip& strip, const RowRange& tile, const KeySlice& slice, Real* copy) {
  const Index j = tile.begin, n = tile.count(), width = slice.width, b = strip.b;
  const Index head = strip.head_of(slice);
  const std::int32_t* const picked =
      tile.source.gathers ? tile.source.picked.of(b, 0, 1) + j : nullptr;
  for (Index r = 0, run = 0; r < n; r += run) {
    const Index row = picked == nullptr ? j + r : picked[r], slot = slice.slot(row);
    run = picked == nullptr ? std::min(n - r, slice.slots - slot) : 1;
    Real* const to = copy + r * width;
    if (slice.data == nullptr) {
      slice.cache->read(b, head, slot, run, slice.first_column, width, to);
      continue;
    }
    const Real* const from = slice.data + slice.offset(b, row, head);
    if (run == n) return {from, n, width, slice.slot_stride};
    for (Index i = 0; i < run; ++i)
      std::copy_n(from + i * slice.slot_stride, width, to + i * width);
  }
  return {copy, n, width};
}

// Leaves the products of keys and queries in w.scores.
void multiply_keys(const Strip& strip, const RowRange& tile, const Workspace& w) {
  Index column = 0;
  for (const KeySlice& slice : tile.source.keys()) {
    multiply({w.scores, tile.count(), kWidth}, rows_of(strip, tile, slice, w.key_rows),
             {w.q_columns + column * kWidth, slice.width, kWidth}, add_if(column > 0));
    column += slice.width;
  }
}

// Calls body(x) for each row of a tile, a vector, and stores what body returns.
template <class Body>
void replace(Real* tile, Index rows, const Body& body) {
  for (Real* row = tile; row < tile + rows * kWidth; row += kWidth) store(row, body(load(row)));
}

// Rows [begin, end) of a tile that a query picked.
std::span<const std::int32_t> picked_in(const Strip& strip, Index lane, const RowRange& tile) {
  const AttentionProblem& p = strip.p;
  const KeySource& s = tile.source;
  const Index t = strip.token[lane];
  const std::int32_t* const list = s.picked.of(strip.b, t, p.tokens);
  const std::int32_t* const end =
      list + std::min(s.picked.most, p.end_row(s, t) - p.first_row(s, t));
  return {std::lower_bound(list, end, tile.begin), std::lower_bound(list, end, tile.end)};
}

// Sets the numbers of a tile where a query does not read the row to `hidden`.
void hide(const Strip& strip, const RowRange& tile, Real hidden, Real* numbers) {
  const AttentionProblem& p = strip.p;
  const KeySource& s = tile.source;
  const Index j = tile.begin, n = tile.count();
  if (p.first_row(s, strip.token[strip.lanes - 1]) > j || p.end_row(s, strip.token[0]) < tile.end) {
    alignas(kAlignment) Real first[kWidth] = {}, end[kWidth] = {};
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      const Index t = strip.token[lane];
      first[lane] = static_cast<Real>(std::clamp<Index>(p.first_row(s, t) - j, 0, n));
      end[lane] = static_cast<Real>(std::clamp<Index>(p.end_row(s, t) - j, 0, n));
    }
    const Vector out = broadcast(hidden), firsts = load(first), ends = load(end);
    Real r = 0;
    replace(numbers, n, [&](Vector x) {
      const Vector row = broadcast(r++);
      x = simd::pselect(simd::pcmp_lt(row, ends), x, out);
      return simd::pselect(simd::pcmp_lt(row, firsts), out, x);
    });
  }
  if (s.picked.rows != nullptr && !s.gathers) {
    std::uint32_t read[kDecodeTile] = {};  // a bit for each lane
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      for (const std::int32_t row : picked_in(strip, lane, tile))
        read[row - j] |= std::uint32_t{1} << lane;
    }
    for (Index i = 0; i < n * kWidth; ++i) {
      if ((read[i / kWidth] >> (i % kWidth) & 1) == 0) numbers[i] = hidden;
    }
  }
  if (p.key_mask == nullptr || s.block > 0) return;
  for (Index r = 0; r < n; ++r) {
    if (p.key_mask[strip.b * s.count + j + r] == 0)
      std::fill_n(numbers + r * kWidth, kWidth, hidden);
  }
}

// Leaves the scores for the softmax in w.scores: scaled, capped, gated, -infinity where a query
// does not read the row. They are in memory before the greatest is subtracted: in one expression, a
// fused multiply-add would subtract the rounded product from the exact one, and exp of a product's
// rounding error overflows where products are large. `scaled`, if not null, receives scores before
// the cap, 0 where a query does not read the row.
void find_scores(const Strip& strip, const RowRange& tile, const Workspace& w,
                 Real* scaled = nullptr) {
  const AttentionProblem& p = strip.p;
  const KeySource& s = tile.source;
  multiply_keys(strip, tile, w);
  const Index n = tile.count();
  const Vector factor = load(strip.factor);
  replace(w.scores, n, [&](Vector x) { return simd::pmul(x, factor); });
  if (scaled != nullptr) {
    std::copy_n(w.scores, n * kWidth, scaled);
    hide(strip, tile, 0, scaled);
  }
  if (p.cap > 0) {
    ArrayMap all = array(w.scores, n * kWidth);
    all = p.cap * (all / p.cap).tanh();
  }
  if (p.gate_sums != nullptr) {
    double own[kWidth] = {};
    const auto sums = [&](Index row) { return p.gate_sums + (strip.b * s.count + row) * p.heads; };
    for (Index lane = 0; lane < strip.lanes; ++lane)
      own[lane] = sums(p.own_row(strip.token[lane]))[strip.head[lane]];
    for (Index r = 0; r < n; ++r) {
      const double* const of_row = sums(tile.begin + r);
      Real* const to = w.scores + r * kWidth;
      for (Index lane = 0; lane < kWidth; ++lane)
        to[lane] += static_cast<Real>(own[lane] - of_row[strip.head[lane]]);
    }
  }
  hide(strip, tile, -kInfinity, w.scores);
}

// Writes the multipliers of dropout of a tile; `room` has 8 numbers more than the tile has rows.
void find_multipliers(const Strip& strip, const RowRange& tile, Real* multipliers, Real* room) {
  const AttentionProblem& p = strip.p;
  const Index before = tile.begin % 8;  // they come from a multiple of 8 on
  std::fill_n(multipliers, tile.count() * kWidth, Real{0});
  for (Index lane = 0; lane < strip.lanes; ++lane) {
    const Index row = (strip.b * p.heads + strip.head[lane]) * p.tokens + strip.token[lane];
    const Index first = row * p.mask_columns + tile.source.first_column + tile.begin - before;
    p.dropout.multipliers(static_cast<std::uint64_t>(first), before + tile.count(), room);
    for (Index r = 0; r < tile.count(); ++r) multipliers[r * kWidth + lane] = room[before + r];
  }
}

// Softmax over the rows so far, lane by lane: the greatest score, the sum of exp(score - greatest),
// and the sums of values with these weights, [width, lanes]. Two of them can be merged.
struct SoftmaxState {
  Real* memory;
  Index width;

  static Index size(Index width) { return (padded(width) + 2) * kWidth; }
  Real* greatest() const { return memory; }
  Real* total() const { return memory + kWidth; }
  Real* sums() const { return memory + 2 * kWidth; }

  // A sink is the first maximum, with a weight of 1 in the total.
  void begin(const Strip& strip, bool with_sinks) const {
    std::fill_n(memory, size(width), Real{0});
    for (Index lane = 0; lane < kWidth; ++lane) {
      const bool sink = with_sinks && strip.p.sinks != nullptr && lane < strip.lanes;
      greatest()[lane] = sink ? strip.p.sinks[strip.head[lane]] : -kInfinity;
      total()[lane] = sink ? 1 : 0;
    }
  }
  // Makes `greatest` the greatest score so far; returns what scores are then relative to.
  Vector raise(Vector now) const {
    const Vector before = load(greatest()), none = broadcast(-kInfinity);
    now = simd::pmax(before, now);
    const Vector base = simd::pselect(simd::pcmp_eq(now, none), broadcast(0), now);
    const Vector shrink = exp_or_zero(simd::psub(before, base));
    store(greatest(), now);
    replace(total(), 1 + width, [&](Vector x) { return simd::pmul(x, shrink); });
    return base;
  }
  void merge(const SoftmaxState& other) const {
    const Vector base = raise(load(other.greatest()));
    const Vector factor = exp_or_zero(simd::psub(load(other.greatest()), base));
    for (Index i = 0; i < (1 + width) * kWidth; i += kWidth)
      store(total() + i, simd::pmadd(load(other.total() + i), factor, load(total() + i)));
  }
};

// One query of few heads leaves most lanes empty. Where nothing is hidden from it, its scores lie
// in rows [lanes, n] instead: exponentials are those of vectors of rows.
bool is_few(const Strip& strip) {
  constexpr Index kFewLanes = 8;
  return strip.p.tokens == 1 && strip.lanes <= kFewLanes && strip.p.dropout.threshold == 0 &&
         strip.p.sources().front().values.cache != nullptr;
}

// sum += v^T weights, four rows at a time: the sum is read and written less often.
void add_weighted(const ConstMatrix& v, const Real* weights, Real* sum) {
  ArrayMap total = array(sum, v.cols);
  const auto row = [&](Index j) { return array(v.data + j * v.stride, v.cols); };
  Index j = 0;
  for (; j + 4 <= v.rows; j += 4)
    total += (weights[j] * row(j) + weights[j + 1] * row(j + 1)) +
             (weights[j + 2] * row(j + 2) + weights[j + 3] * row(j + 3));
  for (; j < v.rows; ++j) total += weights[j] * row(j);
}

void attend_few(const Strip& strip, const RowRange& tile, const Workspace& w,
                const SoftmaxState& state) {
  constexpr Index kRowsOfProduct = 4;  // fewer are faster in products of one row each
  const AttentionProblem& p = strip.p;
  const Index n = tile.count(), lanes = strip.lanes, stride = padded(p.key_width);
  const Index at_once = lanes >= kRowsOfProduct ? lanes : 1;
  const auto scores = [&](Index lane) { return w.scores + lane * kDecodeTile; };
  Index column = 0;
  for (const KeySlice& slice : tile.source.keys()) {
    const ConstMatrix k = rows_of(strip, tile, slice, w.key_rows);
    for (Index lane = 0; lane < lanes; lane += at_once)
      gemm(Matrix(scores(lane), at_once, n, kDecodeTile),
           ConstMatrix(w.q + lane * stride + column, at_once, k.cols, stride), k.transpose(),
           add_if(column > 0));
    column += slice.width;
  }
  alignas(kAlignment) Real greatest[kWidth] = {};
  for (Index lane = 0; lane < lanes; ++lane) {
    ArrayMap row = array(scores(lane), n);
    row *= strip.factor[lane];
    if (p.cap > 0) row = p.cap * (row / p.cap).tanh();
    if (p.gate_sums != nullptr) {
      const double* const sums = p.gate_sums + strip.b * tile.source.count * p.heads;
      const auto sum = [&](Index r) { return sums[r * p.heads + strip.head[lane]]; };
      const double own = sum(p.own_row(0));
      for (Index r = 0; r < n; ++r) row[r] += static_cast<Real>(own - sum(tile.begin + r));
    }
    greatest[lane] = row.maxCoeff();
  }
  store(greatest, state.raise(load(greatest)));
  for (Index lane = 0; lane < lanes; ++lane) {
    ArrayMap row = array(scores(lane), n);
    row = exp_or_zero(row - greatest[lane]);
    state.total()[lane] += row.sum();
  }
  const ConstMatrix v = rows_of(strip, tile, tile.source.values, w.key_rows);
  if (at_once > 1) {
    gemm(Matrix(w.rows, lanes, v.cols), ConstMatrix(w.scores, lanes, n, kDecodeTile), v);
  } else {
    std::fill_n(w.rows, lanes * v.cols, Real{0});
    for (Index lane = 0; lane < lanes; ++lane)
      add_weighted(v, scores(lane), w.rows + lane * v.cols);
  }
  for (Index lane = 0; lane < lanes; ++lane) {
    for (Index c = 0; c < v.cols; ++c) state.sums()[c * kWidth + lane] += w.rows[lane * v.cols + c];
  }
}

// Adds the rows of a tile to the softmax.
void attend(const Strip& strip, const RowRange& tile, const Workspace& w,
            const SoftmaxState& state) {
  const Index n = tile.count();
  if (is_few(strip)) return attend_few(strip, tile, w, state);
  if (strip.p.tokens == 1)
    count_macs(strip.lanes * tile.count() * (strip.p.key_width + strip.p.value_width));
  find_scores(strip, tile, w);
  Vector greatest = load(w.scores);
  for (Index r = 1; r < n; ++r) greatest = simd::pmax(greatest, load(w.scores + r * kWidth));
  const Vector base = state.raise(greatest);
  Vector total = load(state.total());
  replace(w.scores, n, [&](Vector x) {
    const Vector weight = exp_or_zero(simd::psub(x, base));
    total = simd::padd(total, weight);
    return weight;
  });
  store(state.total(), total);
  if (strip.p.dropout.threshold > 0) {
    find_multipliers(strip, tile, w.mask, w.key_rows);
    array(w.scores, n * kWidth) *= array(w.mask, n * kWidth);
  }
  const ConstMatrix v = rows_of(strip, tile, tile.source.values, w.key_rows);
  multiply({state.sums(), v.cols, kWidth}, v.transpose(), {w.scores, n, kWidth}, Write::add);
}

// Writes the outputs of a strip and their softmax.
void finish(const Strip& strip, const SoftmaxState& state, Real* room, Real* y) {
  const Vector inverse = simd::pdiv(broadcast(1), load(state.total()));
  replace(state.sums(), state.width, [&](Vector x) { return simd::pmul(x, inverse); });
  transpose(state.sums(), padded(state.width), kWidth, room);
  for (Index lane = 0; lane < strip.lanes; ++lane) {
    const bool sees = state.total()[lane] != 0;
    strip.p.softmax[strip.row[lane]] =
        sees ? RowSoftmax{state.greatest()[lane], 1 / state.total()[lane]} : RowSoftmax{};
    ArrayMap to = array(y + strip.row[lane] * state.width, state.width);
    if (sees)
      to = array(room + lane * padded(state.width), state.width);
    else
      to.setZero();
  }
}

void transpose_queries(const Strip& strip, const Workspace& w) {
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

Index strip_count(const AttentionProblem& p) {
  return (p.tokens * p.group() + kWidth - 1) / kWidth;
}

// Multiply-accumulates of a strip with `rows` rows.
Index strip_macs(const AttentionProblem& p, Index rows) {
  return kWidth * rows * (p.key_width + p.value_width);
}

// Pairs of queries and rows, those within the reach of tiles that causality hides included.
Index pairs(const AttentionProblem& p) {
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

// Sets the factors of the strip's rows of scores: scale / (norm of what a query sees, or the square
// root of its length).
void find_row_factors(const Strip& strip, const Workspace& w) {
  const AttentionProblem& p = strip.p;
  transpose_queries(strip, w);
  Vector squares = broadcast(0);
  strip.for_tiles([&](const RowRange& tile) {
    if (p.row_scale == RowScale::inverse_norm)
      multiply_keys(strip, tile, w);
    else
      std::fill_n(w.scores, tile.count() * kWidth, Real{1});
    hide(strip, tile, 0, w.scores);
    replace(w.scores, tile.count(), [&](Vector x) {
      squares = simd::pmadd(x, x, squares);
      return x;
    });
  });
  alignas(kAlignment) Real sums[kWidth];
  store(sums, squares);
  for (Index lane = 0; lane < strip.lanes; ++lane)
    p.row_factors[strip.row[lane]] = sums[lane] > 0 ? p.scale / std::sqrt(sums[lane]) : Real{0};
}

// Rows in a chunk, the task of one query, and chunks of each source. There are few, so that memory
// and the time to merge them are small.
struct Chunks {
  Index rows;
  std::array<Index, 2> counts = {};

  explicit Chunks(const AttentionProblem& p) {
    constexpr Index kLeast = 2 * kDecodeTile, kMostChunks = 64;
    rows = std::max(kLeast, p.row_count() / kMostChunks / kDecodeTile * kDecodeTile);
    for (std::size_t s = 0; s < p.source_count; ++s) {
      const KeySource& source = p.all_sources[s];
      counts[s] = (p.end_row(source, 0) - p.first_row(source, 0) + rows - 1) / rows;
    }
  }
  Index all() const { return counts[0] + counts[1]; }
  RowRange range(const Strip& strip, Index chunk) const {
    const std::size_t source = chunk < counts[0] ? 0 : 1;
    RowRange range = strip.range(strip.p.all_sources[source]);
    range.begin += (source == 0 ? chunk : chunk - counts[0]) * rows;
    range.end = std::min(range.end, range.begin + rows);
    return range;
  }
};

// One query for each sequence and head: the softmaxes of chunks of its rows are merged in order.
void attend_in_chunks(Tape& tape, const AttentionProblem& p, const Chunks& chunks, Real* y) {
  const Index strips = strip_count(p), all = p.batch * p.kv_heads * strips, count = chunks.all();
  const Index size = SoftmaxState::size(p.value_width);
  Real* const states = tape.pool().take(all * count * size);
  for_tasks(tape, p, all * count, strip_macs(p, chunks.rows), [&](Index task, const Workspace& w) {
    const Index strip = task / count, head = strip / strips;
    const SoftmaxState state{states + task * size, p.value_width};
    with_strip(p, head / p.kv_heads, head % p.kv_heads, strip % strips, w,
               [&](const Strip& queries, const Workspace&) {
                 state.begin(queries, false);
                 chunks.range(queries, task % count).for_tiles(kDecodeTile, [&](const auto& tile) {
                   attend(queries, tile, w, state);
                 });
               });
  });
  for_strips(tape, p, [&](const Strip& strip, const Workspace& w) {
    const SoftmaxState merged{w.state, p.value_width};
    merged.begin(strip, true);
    const Index index = (strip.b * p.kv_heads + strip.g) * strips + strip.first / kWidth;
    for (Index c = 0; c < count; ++c)
      merged.merge({states + (index * count + c) * size, p.value_width});
    finish(strip, merged, w.rows, y);
  });
  tape.pool().give_back(states);
}

}  // namespace

void attention_forward(Tape& tape, const AttentionProblem& p, Real* y) {
  if (p.tokens > 1) count_macs(pairs(p) * (p.key_width + p.value_width));
  if (p.row_scale != RowScale::one) for_strips(tape, p, find_row_factors);
  if (p.tokens == 1) {
    if (const Chunks chunks(p); chunks.all() > 1) return attend_in_chunks(tape, p, chunks, y);
  }
  for_strips(tape, p, [&](const Strip& strip, const Workspace& w) {
    const SoftmaxState state{w.state, p.value_width};
    state.begin(strip, true);
    strip.for_tiles([&](const RowRange& tile) { attend(strip, tile, w, state); });
    finish(strip, state, w.rows, y);
  });
}

void visit_weights(Tape& tape, const AttentionProblem& p,
                   const std::function<void(const RowWeights&)>& body) {
  const Index blocks = (p.tokens + kWidth - 1) / kWidth;
  const auto visit = [&](const Strip& strip, const Workspace& w) {
    transpose_queries(strip, w);
    strip.for_tiles([&](const RowRange& tile) {
      find_scores(strip, tile, w);
      for (Index lane = 0; lane < strip.lanes; ++lane) {
        const RowSoftmax& softmax = p.softmax[strip.row[lane]];
        for (Index at = lane; at < tile.count() * kWidth; at += kWidth) {
          w.scores[at] = softmax.log_weight(w.scores[at]);
          w.scaled[at] = std::exp(w.scores[at]);
        }
        body({strip.b, strip.token[lane], strip.head[lane], tile.source, tile.begin, tile.count(),
              kWidth, w.scaled + lane, w.scores + lane});
      }
    });
  };
  for_tasks(tape, p, p.batch * blocks, p.heads * strip_macs(p, p.row_count()),
            [&](Index task, const Workspace& w) {
              const Index first = task % blocks * p.group();
              const Index end = std::min(strip_count(p), first + p.group());
              for (Index g = 0; g < p.kv_heads; ++g) {
                for (Index index = first; index < end; ++index)
                  with_strip(p, task / blocks, g, index, w, visit);
              }
            });
}

namespace {

// Backward of a strip. With P the weights, M the multipliers of dropout and D = rowsum(dy o y):
//   dV = (P o M)^T dy,  dS = P o ((dy V^T) o M - D),  dQ = f dS K,  dK = f dS^T Q,
// f the factors of the rows. Of scores A with a cap, dS is times 1 - tanh^2(A / cap). If f is scale
// / |row of q k^T|, the row's direction gets no gradient: with the scaled scores A = f q k^T, dS
// becomes dS - A rowsum(dS o A) / scale^2. A sink of weight p in a row has no value: its gradient
// is the sum over the rows of -p D.
class StripBackward {
 public:
  StripBackward(const Strip& queries, const Workspace& workspace, const Real* y, const Real* dy)
      : strip(queries), p(queries.p), w(workspace) {
    strip.gather(dy, p.value_width, w.dy);
    transpose(w.dy, kWidth, padded(p.value_width), w.dy_columns);
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      const Index row = strip.row[lane];
      greatest[lane] = p.softmax[row].greatest;
      inverse[lane] = p.softmax[row].inverse;
      dot[lane] = (array(y + row * p.value_width, p.value_width) *
                   array(dy + row * p.value_width, p.value_width))
                      .sum();
    }
  }

  void run(const AttentionGradients& d) {
    if (p.sinks != nullptr) add_sink_gradients(d);
    if (p.row_scale == RowScale::inverse_norm) find_along();
    std::fill_n(w.dq_columns, padded(p.key_width) * kWidth, Real{0});
    strip.for_tiles([&](const RowRange& tile) {
      find_gradients(tile);
      add_gradient(tile, tile.source.values, w.scores, w.dy, padded(p.value_width));
      if (d.gate_scores != nullptr) add_gate_gradients(tile, d.gate_scores);
      find_product_gradients(tile);
      Index column = 0;
      for (const KeySlice& slice : tile.source.keys()) {
        add_gradient(tile, slice, w.d_scores, w.q + column, padded(p.key_width));
        if (d.q)
          multiply({w.dq_columns + column * kWidth, slice.width, kWidth},
                   rows_of(strip, tile, slice, w.key_rows).transpose(),
                   {w.d_scores, tile.count(), kWidth}, Write::add);
        column += slice.width;
      }
    });
    if (!d.q) return;
    transpose(w.dq_columns, padded(p.key_width), kWidth, w.rows);
    for (Index lane = 0; lane < strip.lanes; ++lane)
      put(d.q, strip.row[lane] * p.key_width,
          array(w.rows + lane * padded(p.key_width), p.key_width));
  }

 private:
  // What the sink gets, a row's other scores get less: sums of the gates are relative to the row's
  // own.
  void add_sink_gradients(const AttentionGradients& d) const {
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      const Index h = strip.head[lane];
      const Real gradient = -p.softmax[strip.row[lane]].weight(p.sinks[h]) * dot[lane];
      if (d.sinks != nullptr) d.sinks[strip.b * p.heads + h] += gradient;
      if (d.gate_scores != nullptr)
        gates_of(d.gate_scores, p.own_row(strip.token[lane]))[h] += gradient;
    }
  }
  Real* gates_of(Real* gates, Index row) const {
    return gates + (strip.b * p.sources().front().count + row) * p.heads;
  }

  // Leaves P o M in w.scores and dS in w.d_scores; with a cap or norms, A in w.scaled.
  void find_gradients(const RowRange& tile) const {
    const Index n = tile.count();
    const bool keeps_scaled = p.cap > 0 || p.row_scale == RowScale::inverse_norm;
    find_scores(strip, tile, w, keeps_scaled ? w.scaled : nullptr);
    multiply({w.d_scores, n, kWidth}, rows_of(strip, tile, tile.source.values, w.key_rows),
             {w.dy_columns, p.value_width, kWidth}, Write::assign);
    const bool drops = p.dropout.threshold > 0;
    if (drops) {
      find_multipliers(strip, tile, w.mask, w.key_rows);
      array(w.d_scores, n * kWidth) *= array(w.mask, n * kWidth);
    }
    const Vector base = load(greatest), factor = load(inverse), dots = load(dot);
    for (Index at = 0; at < n * kWidth; at += kWidth) {
      const Vector weight = simd::pmul(exp_or_zero(simd::psub(load(w.scores + at), base)), factor);
      store(w.scores + at, weight);
      store(w.d_scores + at, simd::pmul(weight, simd::psub(load(w.d_scores + at), dots)));
    }
    if (drops) array(w.scores, n * kWidth) *= array(w.mask, n * kWidth);
  }

  // along = rowsum(dS o A) / scale^2 over all rows.
  void find_along() {
    Vector sum = broadcast(0);
    strip.for_tiles([&](const RowRange& tile) {
      find_gradients(tile);
      for (Index at = 0; at < tile.count() * kWidth; at += kWidth)
        sum = simd::pmadd(load(w.d_scores + at), load(w.scaled + at), sum);
    });
    store(along, simd::pdiv(sum, broadcast(p.scale * p.scale)));
  }

  // Makes gradients of products q k from those of scores.
  void find_product_gradients(const RowRange& tile) const {
    const Index n = tile.count();
    ArrayMap d = array(w.d_scores, n * kWidth);
    if (p.cap > 0) d *= 1 - (array(w.scaled, n * kWidth) / p.cap).tanh().square();
    const Vector factor = load(strip.factor), part = load(along);
    const bool normed = p.row_scale == RowScale::inverse_norm;
    for (Index at = 0; at < n * kWidth; at += kWidth) {
      Vector x = load(w.d_scores + at);
      if (normed) x = simd::psub(x, simd::pmul(load(w.scaled + at), part));
      store(w.d_scores + at, simd::pmul(x, factor));
    }
  }

  void add_gate_gradients(const RowRange& tile, Real* gates) const {
    for (Index r = 0; r < tile.count(); ++r) {
      Real* const to = gates_of(gates, tile.begin + r);
      const Real* const from = w.d_scores + r * kWidth;
      if (p.group() == 1) {
        to[strip.head[0]] += simd::predux(load(from));
      } else {
        for (Index lane = 0; lane < strip.lanes; ++lane) to[strip.head[lane]] += from[lane];
      }
    }
  }

  // Adds x^T y to the gradient of a slice, with x [n, lanes] and y [lanes, width].
  void add_gradient(const RowRange& tile, const KeySlice& slice, const Real* x, const Real* y,
                    Index stride) const {
    if (slice.gradient == nullptr) return;
    const Index n = tile.count(), width = slice.width, lanes = strip.lanes;
    Real* const to = slice.gradient + slice.offset(strip.b, tile.begin, strip.head_of(slice));
    const ConstMatrix a(x, n, lanes, kWidth), b(y, lanes, padded(width), stride);
    if (width % kWidth == 0) return multiply({to, n, width, slice.slot_stride}, a, b, Write::add);
    multiply({w.key_rows, n, padded(width)}, a, b, Write::assign);
    for (Index r = 0; r < n; ++r)
      array(to + r * slice.slot_stride, width) += array(w.key_rows + r * padded(width), width);
  }

  const Strip& strip;
  const AttentionProblem& p;
  const Workspace& w;
  alignas(kAlignment) Real greatest[kWidth] = {}, inverse[kWidth] = {};
  alignas(kAlignment) Real dot[kWidth] = {}, along[kWidth] = {};
};

}  // namespace

// Strips that add to the gradient of one row run in order, in one task.
void attention_backward(Tape& tape, const AttentionProblem& p, const Real* y, const Real* dy,
                        const AttentionGradients& d) {
  Index heads = p.kv_heads;
  for (const KeySource& s : p.sources()) {
    if (s.values.gradient != nullptr) heads = std::gcd(heads, s.values.heads);
    for (const KeySlice& slice : s.keys())
      if (slice.gradient != nullptr) heads = std::gcd(heads, slice.heads);
  }
  count_macs(pairs(p) * (3 * p.key_width + 2 * p.value_width));
  const Index strips = strip_count(p), in_task = p.kv_heads / heads;
  for_tasks(tape, p, p.batch * heads, in_task * strips * strip_macs(p, p.row_count()),
            [&](Index task, const Workspace& w) {
              for (Index i = 0; i < in_task * strips; ++i) {
                const Index g = task % heads * in_task + i / strips;
                with_strip(p, task / heads, g, i % strips, w,
                           [&](const Strip& strip, const Workspace&) {
                             StripBackward(strip, w, y, dy).run(d);
                           });
              }
            });
}

}  // namespace headcount
