#pragma once

#include <cstdint>
#include <string>

#include "autograd/base/real.h"
#include "autograd/bfloat16.h"

namespace headcount {

/// A row-major matrix to write to; `stride` elements lie between the starts of two rows.
struct Matrix {
  Real* data;
  Index rows, cols, stride;

  Matrix(Real* d, Index r, Index c) : Matrix(d, r, c, c) {}
  Matrix(Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
};

/// A row-major matrix to read. `transposed`: the stored matrix is [cols, rows].
struct ConstMatrix {
  const Real* data;
  Index rows, cols, stride;
  bool transposed = false;
  /// Numbers of `data` in bfloat16, laid out alike; null: products read `data`. `data` may be null
  /// only if both operands of the product have rounded numbers, or if the product has few rows and
  /// this is its b (see `gemm`).
  const Bfloat16* rounded = nullptr;

  ConstMatrix(const Real* d, Index r, Index c) : ConstMatrix(d, r, c, c) {}
  ConstMatrix(const Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
  ConstMatrix(const Matrix& m) : ConstMatrix(m.data, m.rows, m.cols, m.stride) {}
  ConstMatrix transpose() const;
  /// View of rows [begin, end); nothing is copied or checked.
  ConstMatrix row_range(Index begin, Index end) const;
  /// View of columns [begin, end); nothing is copied or checked.
  ConstMatrix column_range(Index begin, Index end) const {
    return transpose().row_range(begin, end).transpose();
  }
};
/// Transposed view of `m`; nothing is copied.
inline ConstMatrix transpose(const ConstMatrix& m) { return m.transpose(); }

/// How results reach memory: they replace what is there, or are added to it (BLAS's beta 0 and 1).
enum class Write { assign, add };
constexpr Write add_if(bool condition) { return condition ? Write::add : Write::assign; }

/// Library that computes matrix products; each call runs on the calling thread alone. Eigen
/// settings of the program and of this library do not affect each other.
enum class GemmLibrary { eigen, onednn };
std::string name(GemmLibrary library);  ///< with its version if known: "oneDNN 2.6.3"
/// Library in use: by default `onednn` in a float build that found oneDNN, else `eigen`. Eigen
/// computes products that are too small for oneDNN in any case.
GemmLibrary gemm_library();
/// Chooses the library, for benchmarks and tests. Throws Error for `onednn` if it was not built in.
void use_gemm_library(GemmLibrary library);
/// Lets oneDNN generate its kernels, which takes more than 10 ms and would delay the first product.
/// Any thread may call it; Eigen needs no preparation.
void prepare_gemm();

/// Reason why products of bfloat16 operands would be slower than float ones here; empty if they are
/// faster. Where there is a reason, they are computed in Real from the rounded numbers.
std::string bf16_lacks();
/// Returns true if `gemm` reads the rounded numbers of operands that have both; smaller products
/// are faster in Real.
bool reads_rounded(Index rows, Index cols, Index k);
/// Number of rows of a below which a product takes the time of reading b, so that a need not be
/// rounded.
inline constexpr Index kFewRows = 8;

/// Writes the product a b to c, on the calling thread; a [m, k], b [k, n], c [m, n]. Every matrix
/// product of training and decoding is computed here. If both operands have rounded numbers, it
/// multiplies these, unless both also have `data` and the product is small (see `reads_rounded`).
/// Otherwise, if b has rounded numbers and is transposed, `write` is assign and a has fewer than
/// kFewRows rows, it multiplies `data` of a by the rounded numbers of b. In all other cases both
/// need `data`. All sums are Real.
void gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write = Write::assign);

/// Computes `gemm` on all threads, in chunks of rows of c whose borders depend on the sizes alone.
/// A long k is split instead, if `scratch` has room for the partial sums (see `gemm_scratch`).
void parallel_gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write = Write::assign,
                   Real* scratch = nullptr);

/// Size of the scratch that `parallel_gemm` needs to split k, in numbers: 0 if k is too short to be
/// split, or if one thread runs all chunks (`OnOneThread`).
Index gemm_scratch(Index rows, Index cols, Index k);

/// Rows of c per chunk of a parallel product [rows, k] x [k, cols] of which a is not transposed and
/// k is not split; all rows under `OnOneThread`.
Index gemm_chunk(Index rows, Index cols, Index k);

/// Adds to the count of the MacCounter, for an op that multiplies without a matrix product.
void count_macs(std::int64_t macs);

/// Counts multiply-accumulates of all products while it lives. Use one at a time: a new one starts
/// the count at 0 again.
class MacCounter {
 public:
  MacCounter();
  ~MacCounter();
  MacCounter(const MacCounter&) = delete;
  MacCounter& operator=(const MacCounter&) = delete;
  std::int64_t count() const;
};

}  // namespace headcount
