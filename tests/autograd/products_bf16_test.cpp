#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>

#include "autograd/parallel.h"
#include "autograd/product.h"

namespace headcount {
namespace {

std::vector<Real> rounded(std::vector<Real> numbers) {
  for (Real& x : numbers) x = static_cast<Real>(static_cast<Eigen::bfloat16>(x));
  return numbers;
}

using Gemm = void (*)(Matrix, ConstMatrix, ConstMatrix, Write, Precision);

// How far a product in bf16 is from that of the rounded numbers with sums in Real.
double error(const Product& p, Gemm product = gemm) {
  Product of_rounded = p;
  of_rounded.a = rounded(p.a);
  of_rounded.b = rounded(p.b);
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
    p.run(gemm, Precision::bf16);
    if (m % 16 == 0) {
      ASSERT_LT(error(p), kFloatRounding) << m;
    }
  }
}

}  // namespace
}  // namespace headcount
