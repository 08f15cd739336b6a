#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "autograd/any_size.h"
#include "autograd/bfloat16.h"
#include "autograd/evaluation.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {
namespace {

// The nearer of the two neighbours, the one with an even last bit at a tie. Beyond the largest
// number lies 2^128, which stands for infinity.
float nearest_by_definition(float x) {
  if (!std::isfinite(x)) return x;
  const std::uint32_t towards_zero = std::bit_cast<std::uint32_t>(x) & 0xffff0000U;
  const auto inner = std::bit_cast<float>(towards_zero);
  const auto outer = std::bit_cast<float>(towards_zero + 0x10000U);
  const double beyond = std::isinf(outer) ? std::copysign(0x1p128, x) : static_cast<double>(outer);
  const double to_inner = std::abs(static_cast<double>(x) - static_cast<double>(inner));
  const double to_outer = std::abs(beyond - static_cast<double>(x));
  const bool even = (towards_zero & 0x10000U) == 0;
  return to_inner < to_outer || (to_inner == to_outer && even) ? inner : outer;
}

// Signs, exponents and upper fractions are all there, subnormal numbers and NaN too.
TEST(Bfloat16, RoundsEveryUpperHalfAsItsDefinitionSays) {
  for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
    std::vector<Real> values;
    std::vector<float> expected;
    for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      values.push_back(static_cast<Real>(x));
      expected.push_back(nearest_by_definition(x));
    }
    std::vector<Bfloat16> rounded(values.size());
    // One short of whole vectors, so that some are rounded one by one.
    round_to_bf16(values.data(), std::ssize(values) - 1, rounded.data());
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const float result = widened(rounded[i]);
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(result)) << std::hex << i << ' ' << lower;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(result), std::bit_cast<std::uint32_t>(expected[i]))
            << std::hex << i << ' ' << lower;
      }
    }
  }
}

std::vector<Bfloat16> rounded(const std::vector<Real>& values) {
  std::vector<Bfloat16> result(values.size());
  round_to_bf16(values.data(), std::ssize(values), result.data());
  return result;
}

std::vector<Real> widened(const std::vector<Bfloat16>& numbers) {
  std::vector<Real> result(numbers.size());
  widen(numbers.data(), std::ssize(numbers), result.data());
  return result;
}

// A product of Real operands, with rows that lie apart in memory.
struct RoundedProduct {
  Index m, k, n;
  bool a_transposed, b_transposed;
  Write write;
  Index gap;
  std::vector<Real> a = normal_values("a", 0, (m + gap) * (k + gap));
  std::vector<Real> b = normal_values("b", 0, (k + gap) * (n + gap));
  std::vector<Real> c = normal_values("c", 0, m*(n + gap));

  using Gemm = void (*)(Matrix, ConstMatrix, ConstMatrix, Write, Precision);
  std::vector<Real> run(Gemm product, Precision precision) const {
    return run(product, precision, a, b);
  }
  std::vector<Real> run(Gemm product, Precision precision, const std::vector<Real>& left,
                        const std::vector<Real>& right) const {
    std::vector<Real> result = c;
    product(Matrix(result.data(), m, n, n + gap), operand(left, m, k, a_transposed),
            operand(right, k, n, b_transposed), write, precision);
    return result;
  }
  // Product in Real of the rounded operands.
  std::vector<Real> expected() const {
    return run(gemm, Precision::f32, widened(rounded(a)), widened(rounded(b)));
  }

 private:
  ConstMatrix operand(const std::vector<Real>& x, Index rows, Index cols, bool transposed) const {
    return transposed ? ConstMatrix(x.data(), cols, rows, rows + gap).transpose()
                      : ConstMatrix(x.data(), rows, cols, cols + gap);
  }
};

double largest_difference(const std::vector<Real>& a, const std::vector<Real>& b, Index k) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
  return worst / std::sqrt(static_cast<double>(k + 1));
}

constexpr double kFloatRounding = 1e-5;

TEST(RoundedProducts, AreProductsOfTheRoundedNumbersWithRealSums) {
  EXPECT_TRUE(rc::check([] {
    const RoundedProduct p = {any_size(32, 90),    any_size(32, 90),    any_size(32, 90),
                              any_size(0, 1) == 1, any_size(0, 1) == 1, add_if(any_size(0, 1) == 1),
                              any_size(0, 9)};
    const std::vector<Real> alone = p.run(gemm, Precision::bf16);
    RC_ASSERT(largest_difference(alone, p.expected(), p.k) < kFloatRounding);
    RC_ASSERT(largest_difference(alone, p.run(gemm, Precision::f32), p.k) > 100 * kFloatRounding);
    RC_ASSERT(largest_difference(p.run(parallel_gemm, Precision::bf16), p.expected(), p.k) <
              kFloatRounding);
  }));
}

TEST(RoundedProducts, LeaveOperandsAsTheyAreWhereRoundingDoesNotPay) {
  const RoundedProduct small = {9, 8, 10, false, true, Write::assign, 0};
  const RoundedProduct few_rows = {7, 300, 301, false, true, Write::add, 2};
  for (const RoundedProduct& p : {small, few_rows}) {
    for (const RoundedProduct::Gemm product : {gemm, parallel_gemm})
      EXPECT_EQ(p.run(product, Precision::bf16), p.run(product, Precision::f32)) << p.m;
  }
}

TEST(RoundedProducts, GiveTheSameBitsForAnyNumberOfThreads) {
  // The last is split along k.
  for (const auto& [m, k] : {std::pair<Index, Index>{1, 130}, {7, 130}, {301, 130}, {20, 5000}}) {
    for (int flags = 0; flags < 8; ++flags) {
      const RoundedProduct p = {
          m, k, 75, (flags & 1) != 0, (flags & 2) != 0, add_if((flags & 4) != 0), 3};
      set_threads(1);
      const std::vector<Real> alone = p.run(parallel_gemm, Precision::bf16);
      for (const int count : {2, 3}) {
        set_threads(count);
        EXPECT_EQ(p.run(parallel_gemm, Precision::bf16), alone)
            << m << " rows, " << count << " threads";
      }
    }
  }
  set_threads(0);
}

TEST(RoundedProducts, AreComputedInRealByEigen) {
  const GemmLibrary library = gemm_library();
  const RoundedProduct p = {70, 80, 90, false, true, Write::add, 0};
  const std::vector<Real> before = p.run(gemm, Precision::bf16);
  use_gemm_library(GemmLibrary::eigen);
  EXPECT_NE(bf16_lacks(), "");
  EXPECT_LT(largest_difference(p.run(gemm, Precision::bf16), before, p.k), kFloatRounding);
  use_gemm_library(library);
}

// More sizes than a thread keeps products for.
TEST(RoundedProducts, StayRightForManySizes) {
  for (Index m = 8; m < 600; ++m) {
    const RoundedProduct p = {m, 64, 64, false, false, Write::assign, 0};
    ASSERT_LT(largest_difference(p.run(gemm, Precision::bf16), p.expected(), p.k), kFloatRounding)
        << m;
  }
}

}  // namespace
}  // namespace headcount
