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
  read_rotated(1);
}

void KeySlice::read_rotated(Index size) {
  block = size;
  if (cache != nullptr && cache->block() == block && !cache->converts())
    data = cache->read_stored(0, 0, 0, 1, first_column, width, nullptr).data;
}

namespace kernel {

namespace {

// Softmax over the rows so far, lane by lane: the greatest score, the sum of exp(score - greatest),
// and the sums of values with these weights, [width, lanes]. Two of them can be merged.
struct SoftmaxState {
  const Strip& strip;
  Real* memory;

  static Index size(const AttentionProblem& p) { return Workspace::widest(p) * kWidth; }
  Index numbers() const { return kWidth + strip.p.value_width * strip.lanes; }
  Real* greatest() const { return memory; }
  Real* total() const { return memory + kWidth; }
  Real* sums() const { return memory + 2 * kWidth; }

  // A sink is the first maximum, with a weight of 1 in the total.
  void begin(bool with_sinks) const {
    std::fill_n(greatest(), kWidth, -kInfinity);
    std::fill_n(total(), padded(numbers()), Real{0});
    for (Index lane = 0; with_sinks && strip.p.sinks != nullptr && lane < strip.queries; ++lane) {
      greatest()[lane] = strip.p.sinks[strip.head[lane]];
      total()[lane] = 1;
    }
  }
  // Makes `greatest` the greatest score so far; returns what scores are then relative to.
  Vector raise(Vector now) const {
    const Vector before = load(greatest()), none = broadcast(-kInfinity);
    store(greatest(), simd::pmax(before, now));
    for (Index lane = kWidth; lane-- > strip.lanes;)  // a vector holds several rows
      greatest()[lane - strip.lanes] = std::max(greatest()[lane - strip.lanes], greatest()[lane]);
    strip.repeat(greatest());
    now = load(greatest());
    const Vector base = simd::pselect(simd::pcmp_eq(now, none), broadcast(0), now);
    const Vector shrink = exp_or_zero(simd::psub(before, base));
    replace(total(), numbers(), [&](Vector x) { return simd::pmul(x, shrink); });
    return base;
  }
  // Adds the rows of a tile.
  void add(const Tile& tile, const Workspace& w) const {
    const Index size = tile.count * strip.lanes;
    strip.find_scores(tile, w);
    Vector now = load(w.scores);
    for (Index at = kWidth; at < size; at += kWidth) now = simd::pmax(now, load(w.scores + at));
    const Vector base = raise(now);
    Vector sum = load(total());
    replace(w.scores, size, [&](Vector x) {
      const Vector weight = exp_or_zero(simd::psub(x, base));
      sum = simd::padd(sum, weight);
      return weight;
    });
    store(total(), sum);
    if (strip.p.dropout.threshold > 0) {
      strip.find_multipliers(tile, w);
      array(w.scores, size) *= array(w.mask, size);
    }
    const ConstMatrix v = strip.rows(tile, tile.source.values, w.key_rows);
    strip.product(w, sums(), v.transpose(), w.scores, Write::add);
  }
  void merge(const SoftmaxState& other) const {
    const Vector base = raise(load(other.greatest()));
    const Vector factor = exp_or_zero(simd::psub(load(other.greatest()), base));
    for (Index i = 0; i < numbers(); i += kWidth)
      store(total() + i, simd::pmadd(load(other.total() + i), factor, load(total() + i)));
  }
  // Writes the outputs and their softmax.
  void finish(Real* y) const {
    for (Index lane = kWidth; lane-- > strip.lanes;) total()[lane - strip.lanes] += total()[lane];
    alignas(kAlignment) Real inverse[kWidth] = {};
    for (Index lane = 0; lane < strip.queries; ++lane) {
      const bool sees = total()[lane] != 0;
      if (sees) inverse[lane] = 1 / total()[lane];
      strip.p.softmax[strip.row[lane]] =
          sees ? RowSoftmax{greatest()[lane], inverse[lane]} : RowSoftmax{};
    }
    strip.repeat(inverse);
    const Vector factor = load(inverse);
    const Index width = strip.p.value_width;
    replace(sums(), width * strip.lanes, [&](Vector x) { return simd::pmul(x, factor); });
    strip.put_rows(sums(), width, {y, Write::assign});
  }
};

// Sets the factors of the strip's rows of scores: scale / (norm of what a query sees, or the square
// root of its length).
void find_row_factors(const Strip& strip, const Workspace& w) {
  const AttentionProblem& p = strip.p;
  Real squares[kWidth] = {};
  strip.for_tiles(w, [&](const Tile& tile) {
    const Index size = tile.count * strip.lanes;
    if (p.row_scale == RowScale::inverse_norm)
      strip.multiply_keys(tile, w);
    else
      std::fill_n(w.scores, size, Real{1});
    strip.hide(tile, 0, w.scores);
    for (Index r = 0; r < size; r += strip.lanes) {
      for (Index lane = 0; lane < strip.lanes; ++lane)
        squares[lane] += w.scores[r + lane] * w.scores[r + lane];
    }
  });
  for (Index lane = 0; lane < strip.queries; ++lane)
    p.row_factors[strip.row[lane]] =
        squares[lane] > 0 ? p.scale / std::sqrt(squares[lane]) : Real{0};
}

// Rows in a task: all, but of one token a part, so that its row is shared out over the threads.
// There are few parts, so that memory and the time to merge them are small.
Index rows_in_task(const AttentionProblem& p) {
  constexpr Index kLeast = 2 * kDecodeTile, kMostParts = 64;
  if (p.tokens > 1) return std::max<Index>(1, p.columns);
  return std::max(kLeast, p.columns / kMostParts / kDecodeTile * kDecodeTile);
}

}  // namespace

}  // namespace kernel

void attention_forward(Tape& tape, const AttentionProblem& p, Real* y) {
  using namespace kernel;
  if (p.row_scale != RowScale::one) for_strips(tape, p, 1, find_row_factors);
  const Index strips = p.batch * p.kv_heads * Strip::count(p), rows = rows_in_task(p);
  const Index parts = std::max<Index>(1, (p.columns + rows - 1) / rows),
              size = SoftmaxState::size(p);
  Real* const states = parts > 1 ? tape.pool().take(strips * parts * size) : nullptr;
  for_tasks(tape, p, strips * parts, 1, rows, [&](Index task, const Workspace& w) {
    const Strip strip(p, task / parts);
    const SoftmaxState state{strip, parts > 1 ? states + task * size : w.state};
    const Index first = task % parts * rows;
    state.begin(first == 0);
    strip.for_tiles(w, first, first + rows, [&](const Tile& tile) { state.add(tile, w); });
    if (parts == 1) state.finish(y);
  });
  if (parts == 1) return;
  for_strips(tape, p, 1, [&](const Strip& strip, const Workspace&) {
    const SoftmaxState first{strip, states + strip.index * parts * size};
    for (Index part = 1; part < parts; ++part) first.merge({strip, first.memory + part * size});
    first.finish(y);
  });
  tape.pool().give_back(states);
}

void visit_weights(Tape& tape, const AttentionProblem& p,
                   const std::function<void(const RowWeights&)>& body) {
  using namespace kernel;
  const Index in_sequence = p.kv_heads * Strip::count(p);
  for_strips(tape, p, in_sequence, [&](const Strip& strip, const Workspace& w) {
    strip.for_tiles(w, [&](const Tile& tile) {
      strip.find_scores(tile, w);
      for (Index lane = 0; lane < strip.queries; ++lane) {
        const RowSoftmax& softmax = p.softmax[strip.row[lane]];
        for (Index at = lane; at < tile.count * strip.lanes; at += strip.lanes) {
          w.scores[at] = softmax.log_weight(w.scores[at]);
          w.scaled[at] = std::exp(w.scores[at]);
        }
        body({strip.b, strip.token[lane], strip.head[lane], tile.source, tile.begin, tile.count,
              strip.lanes, w.scaled + lane, w.scores + lane});
      }
    });
  });
}

}  // namespace headcount
