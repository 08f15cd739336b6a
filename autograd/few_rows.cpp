#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "autograd/products_bf16.h"

// Products of few rows with weights in bfloat16: y_o = x w_o for each row w_o of the weights.
// Reading the weights takes the time, so each is read once and widened on the way.
namespace headcount {

namespace {

constexpr Index kAtOnce = 16;
using Reals [[gnu::vector_size(sizeof(Real) * kAtOnce)]] = Real;
using Floats [[gnu::vector_size(4 * kAtOnce)]] = float;
using Words [[gnu::vector_size(4 * kAtOnce)]] = std::uint32_t;
using Halves [[gnu::vector_size(2 * kAtOnce)]] = std::uint16_t;

// Vectors are passed by reference: how they are passed by value depends on the processor's
// registers.
void load(const Real* from, Reals& lanes) { std::memcpy(&lanes, from, sizeof lanes); }

void load(const Bfloat16* from, Reals& lanes) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  Floats floats;
  std::memcpy(&floats, &words, sizeof floats);
  lanes = __builtin_convertvector(floats, Reals);
}

// Writes c[r, o] = x_r w_o for kRows rows from `row` on and kOutputs rows of w from `output` on.
// Each sum has a register of its own.
template <int kRows, int kOutputs>
void dot_products(Matrix c, const ConstMatrix& x, Index row, Index output, const ConstMatrix& w) {
  Reals sums[kRows][kOutputs] = {};
  const Real* const numbers = x.data + row * x.stride;
  const Bfloat16* const weights = w.rounded + output * w.stride;
  const Index whole = x.cols / kAtOnce * kAtOnce;
  for (Index i = 0; i < whole; i += kAtOnce) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      const Bfloat16* const from = weights + o * w.stride + i;
      __builtin_prefetch(from + kOutputs * w.stride);  // of the next outputs
      Reals lanes;
      load(from, lanes);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        Reals factors;
        load(numbers + r * x.stride + i, factors);
        sums[r][o] += factors * lanes;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) {
      std::array<Real, kAtOnce> lanes;
      std::memcpy(lanes.data(), &sums[r][o], sizeof lanes);
      Real sum = Eigen::Map<const Eigen::Array<Real, kAtOnce, 1>>(lanes.data()).sum();
      for (Index i = whole; i < x.cols; ++i)
        sum += numbers[r * x.stride + i] * static_cast<Real>(widened(weights[o * w.stride + i]));
      c.data[(row + r) * c.stride + output + o] = sum;
    }
  }
}

template <int kOutputs>
void dot_products(Matrix c, const ConstMatrix& x, Index output, const ConstMatrix& w) {
  Index row = 0;
  for (; row + 2 <= c.rows; row += 2) dot_products<2, kOutputs>(c, x, row, output, w);
  for (; row < c.rows; ++row) dot_products<1, kOutputs>(c, x, row, output, w);
}

}  // namespace

void few_rows_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b) {
  ConstMatrix x = a;
  thread_local std::vector<Real> memory;
  if (a.transposed) {
    memory.resize(static_cast<std::size_t>(a.rows * a.cols));
    for (Index row = 0; row < a.rows; ++row) {
      for (Index i = 0; i < a.cols; ++i)
        memory[static_cast<std::size_t>(row * a.cols + i)] = a.data[i * a.stride + row];
    }
    x = ConstMatrix(memory.data(), a.rows, a.cols);
  }
  const ConstMatrix w = b.transpose();  // as it is stored
  Index output = 0;
  for (; output + 8 <= c.cols; output += 8) dot_products<8>(c, x, output, w);
  for (; output < c.cols; ++output) dot_products<1>(c, x, output, w);
}

}  // namespace headcount
