#pragma once

#include <string>

#include "autograd/base/real.h"

namespace headcount {

/// A row-major matrix to write to; `stride` elements lie between the starts of two rows.
struct Matrix {
  Real* data;
  Index rows, cols, stride;

  Matrix(Real* d, Index r, Index c) : Matrix(d, r, c, c) {}
  Matrix(Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
};

/// A row-major matrix to read. `transposed`: the stored matrix is [cols, rows]. `rounded`, unless
/// null, has the same numbers in bfloat16, as far apart: several products then round them once.
struct ConstMatrix {
  const Real* data;
  Index rows, cols, stride;
  bool transposed = false;
  const Eigen::bfloat16* rounded = nullptr;

  ConstMatrix(const Real* d, Index r, Index c) : ConstMatrix(d, r, c, c) {}
  ConstMatrix(const Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
  ConstMatrix(const Matrix& m) : ConstMatrix(m.data, m.rows, m.cols, m.stride) {}
  ConstMatrix transpose() const;  ///< a view; nothing is copied
  /// View of rows [begin, end); nothing is copied or checked.
  ConstMatrix row_range(Index begin, Index end) const;
  /// View of columns [begin, end); nothing is copied or checked.
  ConstMatrix column_range(Index begin, Index end) const {
    return transpose().row_range(begin, end).transpose();
  }
};

/// How results reach memory: they replace what is there, or are added to it (BLAS's beta 0 and 1).
enum class Write { assign, add };
constexpr Write add_if(bool condition) { return condition ? Write::add : Write::assign; }

/// Number type of a product's operands. With bf16 the product rounds both operands to bfloat16 and
/// sums in Real, unless it is too small for that to pay.
enum class Precision { f32, bf16 };

/// Library that computes matrix products, each on the calling thread alone: "oneDNN 2.6.3" in a
/// float build that found oneDNN, else "Eigen". Eigen computes products that are too small for
/// oneDNN in any case.
std::string gemm_library();
/// Lets oneDNN generate its kernels, which takes more than 10 ms and would delay the first product.
/// Any thread may call it; Eigen needs no preparation.
void prepare_gemm();

/// Reason why products of bfloat16 operands would be slower than float ones here; empty if they are
/// faster. Where there is a reason, they are computed in Real from the rounded operands.
std::string bf16_lacks();

/// Writes the product a b to c, on the calling thread; a [m, k], b [k, n], c [m, n]. Every matrix
/// product of training and decoding is computed here.
void gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write = Write::assign,
          Precision precision = Precision::f32);

/// Computes `gemm` on all threads, in chunks whose borders depend on the sizes alone: of the
/// columns of c if it has few rows, as in decoding; of k if it is long; else of the rows of c.
void parallel_gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write = Write::assign,
                   Precision precision = Precision::f32);

}  // namespace headcount
