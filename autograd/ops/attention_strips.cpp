#include "autograd/ops/attention_strips.h"

#include <algorithm>
#include <cmath>

#include "autograd/product_kernels.h"

namespace headcount::kernel {

namespace {

// Rows [begin, end) of a tile that a query picked.
std::span<const std::int32_t> picked_in(const Strip& strip, Index lane, const Tile& tile) {
  const AttentionProblem& p = strip.p;
  const KeySource& s = tile.source;
  const Index t = strip.token[lane];
  const std::int32_t* const list = s.picked.of(strip.b, t, p.tokens);
  const std::int32_t* const end =
      list + std::min(s.picked.most, p.end_row(s, t) - p.first_row(s, t));
  return {std::lower_bound(list, end, tile.begin),
          std::lower_bound(list, end, tile.begin + tile.count)};
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

void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  const Index row = a.transposed ? 1 : a.stride, depth = a.transposed ? a.stride : 1;
  const auto block = [&]<int kRows, int kVectors>(Index i, Index j) {
    Real* const to = c.data + i * c.stride + j;
    Vector sums[kRows][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = write == Write::add ? load(to + r * c.stride + v * kWidth) : broadcast(0);
    }
    const Real *x = a.data + i * row, *y = b.data + j;
    for (Index k = 0; k < a.cols; ++k, x += depth, y += b.stride) {
      Vector of_b[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) of_b[v] = load(y + v * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vector of_a = broadcast(x[r * row]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] = simd::pmadd(of_a, of_b[v], sums[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store(to + r * c.stride + v * kWidth, sums[r][v]);
    }
  };
  Index j = 0;
  const auto columns = [&]<int kVectors>() {
    for (; j + kVectors * kWidth <= c.cols; j += kVectors * kWidth) {
      Index i = 0;
      for (; i + 8 <= c.rows; i += 8) block.template operator()<8, kVectors>(i, j);
      for (; i + 4 <= c.rows; i += 4) block.template operator()<4, kVectors>(i, j);
      for (; i + 2 <= c.rows; i += 2) block.template operator()<2, kVectors>(i, j);
      for (; i < c.rows; ++i) block.template operator()<1, kVectors>(i, j);
    }
  };
  if (c.rows < 4) columns.template operator()<4>();
  columns.template operator()<2>();
  columns.template operator()<1>();
}

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
      for (const std::int32_t picked : picked_in(*this, lane, tile))
        read[picked - j] |= std::uint32_t{1} << lane;
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

}  // namespace headcount::kernel
