#include "autograd/ops/attention_strips.h"

namespace headcount::kernel {

namespace {

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

}  // namespace

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
      slice.read(b, head, slot, run, to);
      continue;
    }
    const Real* const from = slice.data + slice.offset(b, row, head);
    if (run == n) return {from, n, width, slice.slot_stride};
    for (Index i = 0; i < run; ++i)
      std::copy_n(from + i * slice.slot_stride, width, to + i * width);
  }
  return {copy, n, width};
}

void multiply_keys(const Strip& strip, const RowRange& tile, const Workspace& w) {
  Index column = 0;
  for (const KeySlice& slice : tile.source.keys()) {
    multiply({w.scores, tile.count(), kWidth}, rows_of(strip, tile, slice, w.key_rows),
             {w.q_columns + column * kWidth, slice.width, kWidth}, add_if(column > 0));
    column += slice.width;
  }
}

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

// Scores are in memory before the greatest is subtracted: in one expression, a fused multiply-add
// would subtract the rounded product from the exact one, and exp of a product's rounding error
// overflows where products are large.
void find_scores(const Strip& strip, const RowRange& tile, const Workspace& w, Real* scaled) {
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

}  // namespace headcount::kernel
