#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "autograd/bfloat16.h"
#include "autograd/parallel.h"
#include "autograd/product.h"

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

using Gemm = void (*)(Matrix, ConstMatrix, ConstMatrix, Write, Precision);

// How far a product in bf16 is from that of the rounded numbers with sums in Real.
double error(const Product& p, Gemm product = gemm) {
  Product of_rounded = p;
  of_rounded.a = widened(rounded(p.a));
  of_rounded.b = widened(rounded(p.b));
  return of_rounded.error(p.run(product, Precision::bf16));
}

constexpr double kFloatRounding = 1e-5;

TEST(RoundedProducts, AreProductsOfTheRoundedNumbersWithRealSums) {
  EXPECT_TRUE(rc::check([] {
    const Product p = any_product(32, 90, 90);
    RC_ASSERT(error(p) < kFloatRounding);
    RC_ASSERT(error(p, parallel_gemm) < kFloatRounding);
    RC_ASSERT(p.error(p.run(gemm, Precision::bf16)) > 100 * kFloatRounding);
  }));
}

TEST(RoundedProducts, LeaveOperandsAsTheyAreWhereRoundingDoesNotPay) {
  const Product small = {9, 8, 10, false, true, Write::assign, 0};
  const Product few_rows = {7, 300, 301, false, true, Write::add, 2};
  for (const Product& p : {small, few_rows}) {
    for (const Gemm product : {gemm, parallel_gemm})
      EXPECT_EQ(p.run(product, Precision::bf16), p.run(product, Precision::f32)) << p.m;
  }
}

TEST(RoundedProducts, GiveTheSameBitsForAnyNumberOfThreads) {
  for (const Product& p : products_for_threads()) {
    set_threads(1);
    const std::vector<Real> alone = p.run(parallel_gemm, Precision::bf16);
    for (const int count : {2, 3}) {
      set_threads(count);
      EXPECT_EQ(p.run(parallel_gemm, Precision::bf16), alone)
          << p.m << " rows, " << count << " threads";
    }
  }
  set_threads(0);
}

TEST(RoundedProducts, AreComputedInRealByEigen) {
  const GemmLibrary library = gemm_library();
  const Product p = {70, 80, 90, false, true, Write::add, 0};
  use_gemm_library(GemmLibrary::eigen);
  EXPECT_NE(bf16_lacks(), "");
  EXPECT_LT(error(p), kFloatRounding);
  use_gemm_library(library);
}

// More sizes than a thread keeps products for.
TEST(RoundedProducts, StayRightForManySizes) {
  for (Index m = 8; m < 600; ++m) {
    const Product p = {m, 64, 64, false, false, Write::assign, 0};
    ASSERT_LT(error(p), kFloatRounding) << m;
  }
}

}  // namespace
}  // namespace headcount
