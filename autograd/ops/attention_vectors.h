#pragma once

#include <Eigen/Core>
#include <limits>

#include "autograd/ops/support.h"
#include "autograd/products.h"

/// Vectors of queries, and small products of them, for the kernel of `attention`. Not part of the
/// public interface.
namespace headcount::kernel {

namespace simd = Eigen::internal;  // Eigen's vectors, the same for every instruction set
using Vector = simd::packet_traits<Real>::type;
inline constexpr Index kWidth = simd::packet_traits<Real>::size;
inline constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

inline Index padded(Index width) { return (width + kWidth - 1) / kWidth * kWidth; }
inline Vector broadcast(Real x) { return simd::pset1<Vector>(x); }
inline Vector load(const Real* x) { return simd::ploadu<Vector>(x); }
inline void store(Real* x, Vector v) { simd::pstoreu(x, v); }

// exp(x), and exactly 0 for -infinity. Eigen's exp returns denormal numbers there: a query that
// sees no row would seem to see all of them, and arithmetic on denormals is slow.
inline Vector exp_or_zero(Vector x) {
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
inline void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
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
inline void transpose(const Real* x, Index rows, Index cols, Real* to) {
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

// Calls body(x) for each row of a tile, a vector, and stores what body returns.
template <class Body>
void replace(Real* tile, Index rows, const Body& body) {
  for (Real* row = tile; row < tile + rows * kWidth; row += kWidth) store(row, body(load(row)));
}

}  // namespace headcount::kernel
