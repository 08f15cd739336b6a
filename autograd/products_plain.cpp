#include <algorithm>
#include <cstring>

#include "autograd/product_kernels.h"

#ifdef __wasm_relaxed_simd__
#include <wasm_simd128.h>
#endif

// A product in tiles of c that stay in registers: 4 rows of two vectors. With 6 rows, browsers run
// out of 16 registers, and the product takes 1.6 times as long. The columns of b that a tile reads
// are copied to lie side by side; they stay in the first-level cache while all rows of a go over
// them.
namespace headcount {

namespace {

constexpr Index kLanes = 16 / sizeof(Real);
using Lanes [[gnu::vector_size(16)]] = Real;

constexpr Index kTileRows = 4, kTileCols = 2 * kLanes;
constexpr Index kDepth = 256;  // rows of b at a time: 8 kB of copied columns

// Numbers of a, of which element (i, p) lies at row * i + depth * p.
struct Steps {
  const Real* data;
  Index row, depth;
};

// Copies rows [0, depth) of `cols` columns of b, with zeros up to kTileCols.
void copy_columns(const ConstMatrix& b, Index first_row, Index depth, Index first_col, Index cols,
                  Real* to) {
  if (b.transposed) {
    for (Index j = 0; j < cols; ++j) {
      const Real* const from = b.data + (first_col + j) * b.stride + first_row;
      for (Index p = 0; p < depth; ++p) to[p * kTileCols + j] = from[p];
    }
    for (Index j = cols; j < kTileCols; ++j) {
      for (Index p = 0; p < depth; ++p) to[p * kTileCols + j] = 0;
    }
    return;
  }
  const Real* from = b.data + first_row * b.stride + first_col;
  if (cols == kTileCols) {
    for (Index p = 0; p < depth; ++p, from += b.stride)
      std::memcpy(to + p * kTileCols, from, kTileCols * sizeof(Real));
    return;
  }
  for (Index p = 0; p < depth; ++p, from += b.stride) {
    for (Index j = 0; j < kTileCols; ++j) to[p * kTileCols + j] = j < cols ? from[j] : Real{0};
  }
}

Lanes load(const Real* from) {
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

// Writes kRows rows of a tile of c.
template <Index kRows>
void tile(const Steps& a, const Real* b, Index depth, Real* c, Index stride, Write write) {
  Lanes sums[kRows][2] = {};
  const Real* column = a.data;
  for (Index p = 0; p < depth; ++p, column += a.depth, b += kTileCols) {
    const Lanes left = load(b), right = load(b + kLanes);
    for (Index i = 0; i < kRows; ++i) {
      const Lanes factor = column[i * a.row] - Lanes{};
      sums[i][0] = multiply_add(factor, left, sums[i][0]);
      sums[i][1] = multiply_add(factor, right, sums[i][1]);
    }
  }
  for (Index i = 0; i < kRows; ++i) {
    for (Index half = 0; half < 2; ++half) {
      Real* const to = c + i * stride + half * kLanes;
      const Lanes sum = write == Write::add ? load(to) + sums[i][half] : sums[i][half];
      std::memcpy(to, &sum, sizeof sum);
    }
  }
}

void tile_of_rows(Index rows, const Steps& a, const Real* b, Index depth, Real* c, Index stride,
                  Write write) {
  switch (rows) {
    case 1:
      return tile<1>(a, b, depth, c, stride, write);
    case 2:
      return tile<2>(a, b, depth, c, stride, write);
    case 3:
      return tile<3>(a, b, depth, c, stride, write);
    default:
      return tile<kTileRows>(a, b, depth, c, stride, write);
  }
}

// Writes up to kTileCols columns of c.
void columns(const Matrix& c, Index first_col, Index cols, Steps a, const Real* b, Index depth,
             Write write) {
  for (Index i = 0; i < c.rows; i += kTileRows, a.data += kTileRows * a.row) {
    const Index rows = std::min(kTileRows, c.rows - i);
    Real* const to = c.data + i * c.stride + first_col;
    if (cols == kTileCols) {
      tile_of_rows(rows, a, b, depth, to, c.stride, write);
      continue;
    }
    alignas(16) Real whole[kTileRows * kTileCols];
    tile_of_rows(rows, a, b, depth, whole, kTileCols, Write::assign);
    for (Index r = 0; r < rows; ++r) {
      for (Index j = 0; j < cols; ++j) {
        const Real sum = whole[r * kTileCols + j];
        to[r * c.stride + j] = write == Write::add ? to[r * c.stride + j] + sum : sum;
      }
    }
  }
}

}  // namespace

void plain_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  const Index k = a.cols;
  if (k == 0 && write == Write::assign) {
    for (Index i = 0; i < c.rows; ++i) std::fill_n(c.data + i * c.stride, c.cols, Real{0});
  }
  alignas(16) Real copied[kDepth * kTileCols];
  const Steps steps{a.data, a.transposed ? 1 : a.stride, a.transposed ? a.stride : 1};
  for (Index p = 0; p < k; p += kDepth) {
    const Index depth = std::min(kDepth, k - p);
    const Steps from{steps.data + p * steps.depth, steps.row, steps.depth};
    for (Index j = 0; j < c.cols; j += kTileCols) {
      const Index cols = std::min(kTileCols, c.cols - j);
      copy_columns(b, p, depth, j, cols, copied);
      columns(c, j, cols, from, copied, depth, p > 0 ? Write::add : write);
    }
  }
}

}  // namespace headcount
