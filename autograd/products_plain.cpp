#include <algorithm>
#include <cstring>

#include "autograd/product_kernels.h"

#ifdef __wasm_relaxed_simd__
#include <wasm_simd128.h>
#endif

// A product in tiles of c that stay in registers: 4 rows of two vectors. With 6
// rows, browsers run out of 16 registers, and the product takes 1.6 times as
// long. The columns of b that a tile reads are copied to lie side by side; they
// stay in the first-level cache while all rows of a go over them.
namespace headcount {

namespace {

constexpr Index kLanes = 16 / sizeof(Real);
using Lanes [[gnu::vector_size(16)]] = Real;

constexpr Index kTileRows = 4, kTileCols = 2 * kLanes;
constexpr Index kDepth = 256;  // rows of b at a time: 8 kB of copied columns

// Numbers of a matrix, of which element (i, j) lies at row * i + col * j.
struct Steps {
  const Real* data;
  Index row, col;

  explicit Steps(const ConstMatrix& m)
      : data(m.data), row(m.transposed ? 1 : m.stride), col(m.transposed ? m.stride : 1) {}
  Steps from(Index i, Index j) const {
    Steps result = *this;
    result.data += i * row + j * col;
    return result;
  }
};

// Copies columns [0, cols) of b, with zeros up to kTileCols.
void copy_columns(const Steps& b, Index depth, Index cols, Real* to) {
  if (cols < kTileCols) std::fill_n(to, depth * kTileCols, Real{0});
  if (b.row == 1) {
    for (Index j = 0; j < cols; ++j) {
      for (Index p = 0; p < depth; ++p) to[p * kTileCols + j] = b.data[p + j * b.col];
    }
    return;
  }
  for (Index p = 0; p < depth; ++p, to += kTileCols) {
    const Real* const from = b.data + p * b.row;
    if (cols == kTileCols) {
      std::memcpy(to, from, kTileCols * sizeof(Real));  // of a length that the compiler knows
    } else {
      std::copy_n(from, cols, to);
    }
  }
}

Lanes lanes_at(const Real* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// sum + a b, rounded once where WebAssembly has an instruction for it.
Lanes multiply_add(Lanes a, Lanes b, Lanes sum) {
#if defined __wasm_relaxed_simd__ && defined HEADCOUNT_DOUBLE
  return reinterpret_cast<Lanes>(wasm_f64x2_relaxed_madd(a, b, sum));
#elif defined __wasm_relaxed_simd__
  return reinterpret_cast<Lanes>(wasm_f32x4_relaxed_madd(a, b, sum));
#else
  return sum + a * b;
#endif
}

// Writes kRows rows of columns [0, cols) of c.
template <Index kRows>
void tile(const Steps& a, const Real* b, Index depth, Real* c, Index stride, Index cols,
          Write write) {
  Lanes sums[kRows][2] = {};
  const Real* column = a.data;
  for (Index p = 0; p < depth; ++p, column += a.col, b += kTileCols) {
    const Lanes left = lanes_at(b), right = lanes_at(b + kLanes);
    for (Index i = 0; i < kRows; ++i) {
      const Lanes factor = column[i * a.row] - Lanes{};
      sums[i][0] = multiply_add(factor, left, sums[i][0]);
      sums[i][1] = multiply_add(factor, right, sums[i][1]);
    }
  }
  for (Index i = 0; i < kRows; ++i, c += stride) {
    alignas(16) Real edge[kTileCols] = {};
    Real* const to = cols == kTileCols ? c : edge;
    if (write == Write::add && to == edge) std::copy_n(c, cols, edge);
    for (Index half = 0; half < 2; ++half) {
      Real* const at = to + half * kLanes;
      const Lanes sum = write == Write::add ? lanes_at(at) + sums[i][half] : sums[i][half];
      std::memcpy(at, &sum, sizeof sum);
    }
    if (to == edge) std::copy_n(edge, cols, c);
  }
}

}  // namespace

void plain_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  const Steps left(a), right(b);
  alignas(16) Real copied[kDepth * kTileCols];
  // A product of no depth writes zeros.
  for (Index p = 0; p == 0 || p < a.cols; p += kDepth, write = Write::add) {
    const Index depth = std::min(kDepth, a.cols - p);
    for (Index j = 0; j < c.cols; j += kTileCols) {
      const Index cols = std::min(kTileCols, c.cols - j);
      copy_columns(right.from(p, j), depth, cols, copied);
      Real* to = c.data + j;
      Index i = 0;
      for (; i + kTileRows <= c.rows; i += kTileRows, to += kTileRows * c.stride)
        tile<kTileRows>(left.from(i, p), copied, depth, to, c.stride, cols, write);
      for (; i < c.rows; ++i, to += c.stride)
        tile<1>(left.from(i, p), copied, depth, to, c.stride, cols, write);
    }
  }
}

}  // namespace headcount
