#include <Eigen/Core>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "autograd/products_bf16.h"

// Products of few rows with weights in bfloat16: y_o = x w_o for each row w_o of the weights.
// Reading the weights takes the time, so each is read once and widened on the way.
namespace headcount {

namespace {

constexpr Index kFloats = 16;
using Floats [[gnu::vector_size(4 * kFloats)]] = float;
using Words [[gnu::vector_size(4 * kFloats)]] = std::uint32_t;

template <class Vector>
Vector load(const void* from) {
  Vector result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

// Rows of x as floats. A vector of words holds two weights a word, which one instruction each
// separates into those at even and those at odd places. The rows are sorted to match: of their
// first 2 `half` numbers, those at even places come first, then those at odd places. The remaining
// numbers, too few for a vector, follow.
struct SortedRows {
  std::vector<float> numbers;
  Index length = 0, half = 0;

  void read(const ConstMatrix& x) {
    length = x.cols;
    half = length / (2 * kFloats) * kFloats;
    numbers.resize(static_cast<std::size_t>(x.rows * length));
    const Index row_step = x.transposed ? 1 : x.stride, step = x.transposed ? x.stride : 1;
    for (Index row = 0; row < x.rows; ++row)
      sort(x.data + row * row_step, step, numbers.data() + row * length);
  }
  void sort(const Real* from, Index step, float* to) const {
    for (Index i = 0; i < half; ++i) {
      to[i] = static_cast<float>(from[2 * i * step]);
      to[half + i] = static_cast<float>(from[(2 * i + 1) * step]);
    }
    for (Index i = 2 * half; i < length; ++i) to[i] = static_cast<float>(from[i * step]);
  }
  const float* row(Index index) const { return numbers.data() + index * length; }
};

// Weights to prefetch ahead, 4 KB: the second-level cache does not hold all weights of a model.
constexpr Index kAhead = 2048;

// Writes c[r, o] = x_r w_o for kRows rows from `row` on and kOutputs rows of w from `output` on.
// Each sum has a register of its own.
template <int kRows, int kOutputs>
void dot_products(Matrix c, const SortedRows& x, Index row, Index output, const ConstMatrix& w) {
  Floats sums[kRows][kOutputs] = {};
  const Bfloat16* const weights = w.rounded + output * w.stride;
  for (Index i = 0; i < x.half; i += kFloats) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      const Bfloat16* const from = weights + o * w.stride + 2 * i;
      __builtin_prefetch(from + kAhead);
      const auto words = load<Words>(from);
      const auto even = std::bit_cast<Floats>(words << 16);
      const auto odd = std::bit_cast<Floats>(words & 0xffff0000U);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        sums[r][o] += load<Floats>(x.row(row + r) + i) * even;
        sums[r][o] += load<Floats>(x.row(row + r) + x.half + i) * odd;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) {
      const auto lanes = std::bit_cast<std::array<float, kFloats>>(sums[r][o]);
      float sum = Eigen::Map<const Eigen::Array<float, kFloats, 1>>(lanes.data()).sum();
      for (Index i = 2 * x.half; i < x.length; ++i)
        sum += x.row(row + r)[i] * widened(weights[o * w.stride + i]);
      c.data[(row + r) * c.stride + output + o] = static_cast<Real>(sum);
    }
  }
}

template <int kOutputs>
void dot_products(Matrix c, const SortedRows& x, Index output, const ConstMatrix& w) {
  Index row = 0;
  for (; row + 2 <= c.rows; row += 2) dot_products<2, kOutputs>(c, x, row, output, w);
  for (; row < c.rows; ++row) dot_products<1, kOutputs>(c, x, row, output, w);
}

}  // namespace

void few_rows_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b) {
  thread_local SortedRows x;
  x.read(a);
  const ConstMatrix w = b.transpose();  // as it is stored
  Index output = 0;
  for (; output + 8 <= c.cols; output += 8) dot_products<8>(c, x, output, w);
  for (; output < c.cols; ++output) dot_products<1>(c, x, output, w);
}

}  // namespace headcount
