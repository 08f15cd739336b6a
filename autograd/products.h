#pragma once

#include <cstdint>
#include <string>

#include "autograd/base/real.h"

namespace headcount {

/// A row-major matrix somewhere in memory; `stride` elements lie between the starts of two rows.
/// `transposed` says that the stored matrix is [cols, rows] and is read the other way round.
struct ConstMatrix {
  const Real* data;
  Index rows, cols, stride;
  bool transposed = false;

  ConstMatrix(const Real* d, Index r, Index c) : ConstMatrix(d, r, c, c) {}
  ConstMatrix(const Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
  ConstMatrix transpose() const;
  ConstMatrix row_range(Index begin, Index end) const;
  ConstMatrix column_range(Index begin, Index end) const {
    return transpose().row_range(begin, end).transpose();
  }
};

/// A row-major matrix to write to.
struct Matrix {
  Real* data;
  Index rows, cols, stride;

  Matrix(Real* d, Index r, Index c) : Matrix(d, r, c, c) {}
  Matrix(Real* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
};

/// Library that computes matrix products; each call runs on the calling thread alone. Eigen
/// settings of a program that uses this library have no effect here, nor the reverse.
enum class GemmLibrary { eigen, onednn };
std::string name(GemmLibrary library);  ///< with its version, as far as it tells: "oneDNN 2.6.3"
/// Library in use. Unless another is chosen, it is `onednn` in a float build that found oneDNN,
/// else `eigen`. Products too small for oneDNN are computed by Eigen either way.
GemmLibrary gemm_library();
/// Chooses the library, for benchmarks and tests. Throws Error for `onednn` if it was not built in.
void use_gemm_library(GemmLibrary library);
/// Has oneDNN generate its kernels now, more than 10 ms of work that the first product would wait
/// for. Any thread may call it; with Eigen there is nothing to prepare.
void prepare_gemm();

/// c = a b, or c += a b with `accumulate`; a [m, k], b [k, n], c [m, n], on the calling thread.
/// Every matrix product of training and decoding is computed here.
void gemm(Matrix c, ConstMatrix a, ConstMatrix b, bool accumulate = false);

/// Computes `gemm` on all threads, in chunks of rows of c whose borders depend on the sizes alone.
/// A long k is split instead, if `scratch` has room for the partial sums: `gemm_scratch` numbers.
void parallel_gemm(Matrix c, ConstMatrix a, ConstMatrix b, bool accumulate = false,
                   Real* scratch = nullptr);

/// Numbers of scratch that `parallel_gemm` needs to split k: 0 if k is too short to be split, or if
/// one thread runs all chunks (`OnOneThread`).
Index gemm_scratch(Index rows, Index cols, Index k);

/// Rows of c per chunk of a parallel product [rows, k] x [k, cols], with a stored as it is or
/// transposed; all rows under `OnOneThread`.
Index gemm_chunk(Index rows, Index cols, Index k, bool a_transposed = false);

/// Adds `macs` to the count of the MacCounter, for an op that multiplies without a matrix product.
void count_macs(std::int64_t macs);

/// Counts multiply-accumulates of all products while it lives, for the tests of the cost model. Use
/// one at a time: a new one starts the count at 0 again.
class MacCounter {
 public:
  MacCounter();
  ~MacCounter();
  MacCounter(const MacCounter&) = delete;
  MacCounter& operator=(const MacCounter&) = delete;
  std::int64_t count() const;
};

}  // namespace headcount
