#include <algorithm>

#include "autograd/products/product_kernels.h"

#ifdef __wasm_relaxed_simd__
#include <wasm_simd128.h>
#endif

namespace headcount {

namespace vectors {

namespace {

// Vectors of sums that a block has: with operands, they fit into 32 registers, or into 16.
constexpr int kSums = sizeof(Vector) == 64 ? 16 : 8;

// sum + a b, rounded once where there is an instruction for it.
Vector multiply_add(Vector a, Vector b, Vector sum) {
#if defined __wasm_relaxed_simd__ && defined HEADCOUNT_DOUBLE
  return reinterpret_cast<Vector>(wasm_f64x2_relaxed_madd(a, b, sum));
#elif defined __wasm_relaxed_simd__
  return reinterpret_cast<Vector>(wasm_f32x4_relaxed_madd(a, b, sum));
#else
  return simd::pmadd(a, b, sum);
#endif
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
        for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(of_a, of_b[v], sums[r][v]);
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
      const auto rows = [&]<int kRows>() {
        for (; i + kRows <= c.rows; i += kRows) block.template operator()<kRows, kVectors>(i, j);
      };
      rows.template operator()<kSums / kVectors>();
      rows.template operator()<4>();
      rows.template operator()<2>();
      rows.template operator()<1>();
    }
  };
  if (c.rows < 4) columns.template operator()<4>();
  columns.template operator()<2>();
  columns.template operator()<1>();
}

}  // namespace vectors

namespace {

constexpr Index kCols = 2 * vectors::kWidth;
constexpr Index kDepth = 256, kRows = 64;

// Copies the columns of b to lie side by side, with zeros up to kCols.
void copy_columns(const ConstMatrix& b, Real* to) {
  if (b.cols < kCols) std::fill_n(to, b.rows * kCols, Real{0});
  if (b.transposed) {
    for (Index j = 0; j < b.cols; ++j) {
      for (Index p = 0; p < b.rows; ++p) to[p * kCols + j] = b.data[j * b.stride + p];
    }
    return;
  }
  for (Index p = 0; p < b.rows; ++p, to += kCols) {
    const Real* const from = b.data + p * b.stride;
    if (b.cols == kCols)
      std::copy_n(from, kCols, to);  // of a length that the compiler knows
    else
      std::copy_n(from, b.cols, to);
  }
}

}  // namespace

// The columns of b that a block of c reads are copied, and stay in the first-level cache while all
// rows of a go over them.
void plain_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  alignas(64) Real copied[kDepth * kCols], edge[kRows * kCols];
  // A product of no depth writes zeros.
  for (Index p = 0; p == 0 || p < a.cols; p += kDepth, write = Write::add) {
    const Index depth = std::min(kDepth, a.cols - p);
    const ConstMatrix left = a.column_range(p, p + depth), right(copied, depth, kCols);
    for (Index j = 0; j < c.cols; j += kCols) {
      const Index cols = std::min(kCols, c.cols - j);
      copy_columns(b.row_range(p, p + depth).column_range(j, j + cols), copied);
      if (cols == kCols) {
        vectors::multiply({c.data + j, c.rows, kCols, c.stride}, left, right, write);
        continue;
      }
      for (Index i = 0; i < c.rows; i += kRows) {
        const Index rows = std::min(kRows, c.rows - i);
        vectors::multiply({edge, rows, kCols}, left.row_range(i, i + rows), right, Write::assign);
        for (Index r = 0; r < rows; ++r) {
          Real* const to = c.data + (i + r) * c.stride + j;
          for (Index k = 0; k < cols; ++k)
            to[k] = edge[r * kCols + k] + (write == Write::add ? to[k] : 0);
        }
      }
    }
  }
}

}  // namespace headcount
