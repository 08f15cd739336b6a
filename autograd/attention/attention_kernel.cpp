#include "autograd/attention/attention_kernel.h"

#include <cmath>

namespace headcount {

namespace kernel {

namespace {

// Numbers of the blocks that the query of a lane picked and that have rows of the tile. An end of
// -1 is the greatest unsigned number.
std::span<const std::int32_t> picked_in(const Strip& strip, Index lane, const Tile& tile) {
  const PickedRows& picked = tile.source.picked;
  const AttentionProblem& p = strip.p;
  const Index list = strip.head[lane] * picked.lists / p.heads;
  const std::span all(picked.rows + picked.offset(strip.b, strip.token[lane], p.tokens, list),
                      static_cast<std::size_t>(picked.most));
  const auto first_from = [&](Index row) {
    const auto block = static_cast<std::uint32_t>((row + picked.missing) / picked.block);
    return std::ranges::lower_bound(all, block, {},
                                    [](std::int32_t n) { return std::uint32_t(n); });
  };
  return {first_from(tile.begin), first_from(tile.begin + tile.count + picked.block - 1)};
}

// Writes the product of few rows by the library to c, without gaps between its rows.
void multiply_rows(const ConstMatrix& a, const ConstMatrix& b, Real* c) {
  constexpr Index kRowsOfProduct = 4;  // fewer are faster in products of one row each
  const Index at_once = a.rows >= kRowsOfProduct ? a.rows : 1;
  Real* const rows = c + a.rows * b.cols;
  for (Index row = 0; row < a.rows; ++row) {
    for (Index k = 0; k < a.cols; ++k) rows[row * a.cols + k] = a.data[k * a.stride + row];
  }
  for (Index row = 0; row < a.rows; row += at_once)
    library_gemm(Matrix(c + row * b.cols, at_once, b.cols),
                 ConstMatrix(rows + row * a.cols, at_once, a.cols), b, Write::assign);
}

}  // namespace

Strip::Strip(const AttentionProblem& problem, Index strip) : p(problem), index(strip) {
  const Index group = p.group(), strips = count(p), all = p.tokens * group;
  const Index kv_head = index / strips, first = index % strips * kWidth;
  b = kv_head / p.kv_heads, g = kv_head % p.kv_heads;
  queries = std::min(kWidth, all - first);
  lanes =
      p.tokens > 1 ? kWidth : static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(queries)));
  Index t = first / group, h = first % group;
  for (Index lane = 0; lane < queries; ++lane) {
    token[lane] = t;
    head[lane] = g * group + h;
    row[lane] = (b * p.tokens + t) * p.heads + head[lane];
    factor[lane] = p.row_factors == nullptr ? p.scale : p.row_factors[row[lane]];
    if (++h == group) ++t, h = 0;
  }
  std::fill(head + queries, head + kWidth, head[0]);
  repeat(factor);
}

void Strip::gather(const Real* x, Index width, Real* to) const {
  const Index stride = padded(width);
  for (Index lane = 0; lane < queries; ++lane) {
    std::copy_n(x + row[lane] * width, width, to + lane * stride);
    std::fill(to + lane * stride + width, to + (lane + 1) * stride, Real{0});
  }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // a vector type as argument of a template

void Strip::get_columns(const Real* x, Index width, Real* to) const {
  Index c = 0;
  for (; lanes == kWidth && c + kWidth <= width; c += kWidth) {
    simd::PacketBlock<Vector, kWidth> block;
    for (Index lane = 0; lane < kWidth; ++lane)
      block.packet[lane] = lane < queries ? load(x + row[lane] * width + c) : broadcast(0);
    simd::ptranspose(block);
    for (Index i = 0; i < kWidth; ++i) store(to + (c + i) * kWidth, block.packet[i]);
  }
  for (; c < width; ++c) {
    for (Index lane = 0; lane < lanes; ++lane)
      to[c * lanes + lane] = lane < queries ? x[row[lane] * width + c] : Real{0};
  }
}

void Strip::put_rows(const Real* columns, Index width, const GradientSink& x) const {
  Index c = 0;
  for (; lanes == kWidth && c + kWidth <= width; c += kWidth) {
    simd::PacketBlock<Vector, kWidth> block;
    for (Index i = 0; i < kWidth; ++i) block.packet[i] = load(columns + (c + i) * kWidth);
    simd::ptranspose(block);
    for (Index lane = 0; lane < queries; ++lane) {
      Real* const to = x.data + row[lane] * width + c;
      store(to,
            x.write == Write::add ? simd::padd(load(to), block.packet[lane]) : block.packet[lane]);
    }
  }
  for (; c < width; ++c) {
    for (Index lane = 0; lane < queries; ++lane)
      x.put(row[lane] * width + c, columns[c * lanes + lane]);
  }
}

#pragma GCC diagnostic pop

void Strip::product(const Workspace& w, Real* c, const ConstMatrix& a, const Real* columns,
                    Write write) const {
  if (lanes == kWidth) return multiply({c, a.rows, kWidth}, a, {columns, a.cols, kWidth}, write);
  // The lanes of few queries are rows of a product.
  const ConstMatrix left = ConstMatrix(columns, a.cols, lanes).transpose(), right = a.transpose();
  if (!right.transposed && right.cols % kWidth == 0)
    multiply({w.product, lanes, right.cols}, left, right, Write::assign);
  else
    multiply_rows(left, right, w.product);
  const auto put = [&]<int kLanes>() {
    for (Index r = 0; kLanes == lanes && r < a.rows; ++r) {
      for (int lane = 0; lane < kLanes; ++lane)
        GradientSink{c, write}.put(r * kLanes + lane, w.product[lane * a.rows + r]);
    }
  };
  put.template operator()<1>();
  put.template operator()<2>();
  put.template operator()<4>();
  put.template operator()<8>();
}

ConstMatrix Strip::rows(const Tile& tile, const KeySlice& slice, Real* copy) const {
  const Index n = tile.count, width = slice.width, kv_head = head_of(slice);
  for (Index r = 0, run = 0; r < n; r += run) {
    const Index slot = slice.slot(tile.begin + r);
    run = std::min(n - r, slice.slots - slot);
    Real* const to = copy + r * width;
    if (slice.data == nullptr) {
      slice.read(b, kv_head, slot, run, to);
      continue;
    }
    const Real* const from = slice.data + slice.offset(b, tile.begin + r, kv_head);
    if (run == n) return {from, n, width, slice.slot_stride};
    for (Index i = 0; i < run; ++i)
      std::copy_n(from + i * slice.slot_stride, width, to + i * width);
  }
  return {copy, n, width};
}

void Strip::multiply_keys(const Tile& tile, const Workspace& w) const {
  Index column = 0;
  for (const KeySlice& slice : tile.source.keys()) {
    product(w, w.scores, rows(tile, slice, w.key_rows), w.q_columns + column * lanes,
            add_if(column > 0));
    column += slice.width;
  }
}

void Strip::hide(const Tile& tile, Real hidden, Real* numbers) const {
  const KeySource& s = tile.source;
  const Index j = tile.begin, n = tile.count;
  if (p.first_row(s, token[queries - 1]) > j || p.end_row(s, token[0]) < j + n ||
      n * lanes % kWidth != 0) {
    alignas(kAlignment) Real first[kWidth] = {}, end[kWidth] = {}, of_lane[kWidth] = {};
    for (Index lane = 0; lane < queries; ++lane) {
      first[lane] = static_cast<Real>(std::clamp<Index>(p.first_row(s, token[lane]) - j, 0, n));
      end[lane] = static_cast<Real>(std::clamp<Index>(p.end_row(s, token[lane]) - j, 0, n));
    }
    repeat(first), repeat(end);
    for (Index lane = lanes; lane < kWidth; ++lane) of_lane[lane] = of_lane[lane - lanes] + 1;
    const Vector out = broadcast(hidden), firsts = load(first), ends = load(end);
    const Vector step = broadcast(of_lane[kWidth - 1] + 1);
    Vector row_of_lane = load(of_lane);
    replace(numbers, n * lanes, [&](Vector x) {
      x = simd::pselect(simd::pcmp_lt(row_of_lane, ends), x, out);
      x = simd::pselect(simd::pcmp_lt(row_of_lane, firsts), out, x);
      row_of_lane = simd::padd(row_of_lane, step);
      return x;
    });
  }
  if (s.picked.rows != nullptr) {
    std::uint32_t read[kDecodeTile] = {};  // a bit for each lane
    for (Index lane = 0; lane < queries; ++lane) {
      for (const std::int32_t block : picked_in(*this, lane, tile)) {
        const Index end = std::min(n, s.picked.begin(block + 1) - j);
        for (Index r = std::max<Index>(0, s.picked.begin(block) - j); r < end; ++r)
          read[r] |= std::uint32_t{1} << lane;
      }
    }
    for (Index r = 0; r < n; ++r) {
      for (Index lane = 0; lane < lanes; ++lane) {
        if ((read[r] >> lane & 1) == 0) numbers[r * lanes + lane] = hidden;
      }
    }
  }
  for (Index r = 0; p.key_mask != nullptr && s.block == 0 && r < n; ++r) {
    if (p.masks(b, j + r)) std::fill_n(numbers + r * lanes, lanes, hidden);
  }
}

// Scores are in memory before the greatest is subtracted: in one expression, a fused multiply-add
// would subtract the rounded product from the exact one, and exp of a product's rounding error
// overflows where products are large.
void Strip::find_scores(const Tile& tile, const Workspace& w, Real* scaled) const {
  multiply_keys(tile, w);
  const Index size = tile.count * lanes;
  const Vector factors = load(factor);
  replace(w.scores, size, [&](Vector x) { return simd::pmul(x, factors); });
  if (p.cap > 0) {
    ArrayMap all = array(w.scores, size);
    all = p.cap * (all / p.cap).tanh();
  }
  if (scaled != nullptr) std::copy_n(w.scores, size, scaled);
  for (Index lane = 0; p.gate_sums != nullptr && lane < queries; ++lane) {
    const double own = p.gate_sums[p.gate(b, p.row_of_query(token[lane]), head[lane])];
    for (Index r = 0; r < tile.count; ++r)
      w.scores[r * lanes + lane] +=
          static_cast<Real>(own - p.gate_sums[p.gate(b, tile.begin + r, head[lane])]);
  }
  hide(tile, -kInfinity, w.scores);
}

void Strip::find_multipliers(const Tile& tile, const Workspace& w) const {
  if (queries < lanes) std::fill_n(w.mask, tile.count * lanes, Real{0});
  for (Index lane = 0; lane < queries; ++lane) {
    const Index query = (b * p.heads + head[lane]) * p.tokens + token[lane];
    const Index first = query * p.columns + tile.source.first_column + tile.begin;
    p.dropout.multipliers(static_cast<std::uint64_t>(first), tile.count, w.product);
    for (Index r = 0; r < tile.count; ++r) w.mask[r * lanes + lane] = w.product[r];
  }
}

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

// A task computes one strip. A single token has few strips: there, a task computes some rows of a
// strip, and the softmax states of these parts are merged in order.
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
