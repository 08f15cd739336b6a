#include <algorithm>
#include <bit>
#include <vector>

#include "autograd/parallel.h"
#include "autograd/products/bf16.h"
#include "autograd/products/product_kernels.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace headcount {

namespace {

using RoundedRows = Eigen::Matrix<Eigen::bfloat16, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rounds to nearest, ties to even.
void round_numbers(const Real* from, Index count, Eigen::bfloat16* to) {
  Index i = 0;
#if defined __AVX512BF16__ && !defined HEADCOUNT_DOUBLE  // which Eigen's casts do not use
  for (; i + 32 <= count; i += 32) {
    const auto both =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + i, std::bit_cast<__m512i>(both));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<Eigen::bfloat16>(from[i]);
}

RoundedMatrix rounded(const ConstMatrix& m, std::vector<Eigen::bfloat16>& memory) {
  const ConstMap stored = stored_map(m);
  const Index rows = stored.rows(), cols = stored.cols();
  if (m.rounded != nullptr) return {m.rounded, rows, cols, m.stride, m.transposed};
  Eigen::bfloat16* const to = room(memory, rows * cols);
  for (Index row = 0; row < rows; ++row)
    round_numbers(m.data + row * m.stride, cols, to + row * cols);
  return {to, rows, cols, cols, m.transposed};
}

// The numbers of m as Real, in `memory`.
ConstMatrix widened(const RoundedMatrix& m, std::vector<Real>& memory) {
  Real* const to = room(memory, m.rows * m.cols);
  Eigen::Map<RowMajor>(to, m.rows, m.cols) =
      Eigen::Map<const RoundedRows, 0, Eigen::OuterStride<>>(m.data, m.rows, m.cols,
                                                             Eigen::OuterStride<>(m.stride))
          .cast<Real>();
  const ConstMatrix result(to, m.rows, m.cols);
  return m.transposed ? result.transpose() : result;
}

}  // namespace

std::string bf16_lacks() {
  if (sizeof(Real) != sizeof(float)) return "this program computes in double";
#ifdef HEADCOUNT_ONEDNN
  static const bool has_instructions = has_bf16_instructions();
  return has_instructions ? "" : "the processor has neither amx_bf16 nor avx512_bf16";
#else
  return "this program was built without oneDNN; configure it with -DHEADCOUNT_GEMM=onednn";
#endif
}

void round_to_bf16(const Real* from, Index count, Eigen::bfloat16* to) {
  parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
    round_numbers(from + begin, end - begin, to + begin);
  });
}

void bf16_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  thread_local std::vector<Eigen::bfloat16> left, right;
  const RoundedMatrix x = rounded(a, left), y = rounded(b, right);
#ifdef HEADCOUNT_ONEDNN
  if (bf16_lacks().empty()) {
    // Added to zeros: where oneDNN only stores, it waits for each line of memory, twice as long.
    const Index runs = c.stride == c.cols ? 1 : c.rows;
    for (Index run = 0; write == Write::assign && run < runs; ++run)
      std::fill_n(c.data + run * c.stride, c.rows / runs * c.cols, Real{0});
    return onednn_add(c, x, y);
  }
#endif
  thread_local std::vector<Real> wide_left, wide_right;
  library_gemm(c, widened(x, wide_left), widened(y, wide_right), write);
}

}  // namespace headcount
