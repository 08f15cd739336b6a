#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <string>
#include <vector>

#include "autograd/products/products.h"

#ifdef HEADCOUNT_DOUBLE
#undef HEADCOUNT_ONEDNN  // oneDNN multiplies in float only
#endif

/// Products that `gemm` chooses from, each on the calling thread. Not part of the public interface.
namespace headcount {

using RowMajor = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;

/// The matrix as it is stored.
inline ConstMap stored_map(const ConstMatrix& m) {
  return m.transposed ? ConstMap(m.data, m.cols, m.rows, Eigen::OuterStride<>(m.stride))
                      : ConstMap(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride));
}

/// Memory for `count` numbers. It only grows: a vector would fill what a smaller size cut off.
template <class Number>
Number* room(std::vector<Number>& memory, Index count) {
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(count)));
  return memory.data();
}

/// A matrix in bfloat16, [rows, cols] as they are stored.
struct RoundedMatrix {
  const Eigen::bfloat16* data;
  Index rows, cols, stride;
  bool transposed;
};

namespace vectors {

namespace simd = Eigen::internal;  // Eigen's vectors, the same for every instruction set
using Vector = simd::packet_traits<Real>::type;
inline constexpr Index kWidth = simd::packet_traits<Real>::size;
inline Vector broadcast(Real x) { return simd::pset1<Vector>(x); }
inline Vector load(const Real* x) { return simd::ploadu<Vector>(x); }
inline void store(Real* x, Vector v) { simd::pstoreu(x, v); }

/// Product of small matrices, c = a b or c += a b: c has whole vectors of columns and stays in
/// registers block by block; nothing is copied, and b is not transposed.
void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write);

}  // namespace vectors

/// Products of bfloat16 operands in the tile registers of AMX.
namespace tiles {

/// Whether this program and this processor have them.
bool available();

/// Scope guard, if `active`: readies this thread for `multiply` and for no product by a library.
class Scope {
 public:
  explicit Scope(bool active);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  bool active_;
};

/// Rounds the operands of vectors::multiply to bfloat16 and multiplies; c has a multiple of 16
/// columns. Unless they are available, nothing is rounded.
void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write);

}  // namespace tiles

/// Product of any matrices by `multiply`, for processors on which Eigen's is slow, such as
/// WebAssembly.
void plain_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);

/// Product in Real by the library in use, for ops that count their multiply-adds themselves.
void library_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);

/// Product of operands that it rounds to bfloat16.
void bf16_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);

/// Products by oneDNN, in builds that have it; no extent is 0. The second is added to c and needs a
/// processor with instructions for bfloat16.
void onednn_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);
void onednn_add(Matrix c, const RoundedMatrix& a, const RoundedMatrix& b);
std::string onednn_version();
bool has_bf16_instructions();

}  // namespace headcount
