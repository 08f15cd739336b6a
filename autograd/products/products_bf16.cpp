#include <vector>

#include "autograd/products/product_kernels.h"

namespace headcount {

namespace {

using RoundedRows = Eigen::Matrix<Eigen::bfloat16, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

RoundedMatrix rounded(const ConstMatrix& m, std::vector<Eigen::bfloat16>& memory) {
  const ConstMap stored = stored_map(m);
  Eigen::bfloat16* const to = room(memory, stored.size());
  Eigen::Map<RoundedRows>(to, stored.rows(), stored.cols()) = stored.cast<Eigen::bfloat16>();
  return {to, stored.rows(), stored.cols(), m.transposed};
}

// The numbers of m as Real, in `memory`.
ConstMatrix widened(const RoundedMatrix& m, std::vector<Real>& memory) {
  Real* const to = room(memory, m.rows * m.cols);
  Eigen::Map<RowMajor>(to, m.rows, m.cols) =
      Eigen::Map<const RoundedRows>(m.data, m.rows, m.cols).cast<Real>();
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

void bf16_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  thread_local std::vector<Eigen::bfloat16> left, right;
  const RoundedMatrix x = rounded(a, left), y = rounded(b, right);
#ifdef HEADCOUNT_ONEDNN
  if (bf16_lacks().empty()) return onednn_gemm(c, x, y, write);
#endif
  thread_local std::vector<Real> wide_left, wide_right;
  library_gemm(c, widened(x, wide_left), widened(y, wide_right), write);
}

}  // namespace headcount
