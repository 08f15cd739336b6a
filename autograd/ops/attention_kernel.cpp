#include "autograd/ops/attention_kernel.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/attention_strips.h"

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
  if (cache->block() == 1) read_rotated();
}

void KeySlice::read_rotated() {
  rotated = true;
  if (!cache->converts()) data = cache->read_stored(0, 0, 0, 1, first_column, width, nullptr).data;
}

namespace kernel {

namespace {

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
    count_macs(lanes * n * v.cols);
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

}  // namespace kernel

void attention_forward(Tape& tape, const AttentionProblem& p, Real* y) {
  using namespace kernel;
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
  using namespace kernel;
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

}  // namespace headcount
