#include "autograd/products.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>

#include "autograd/parallel.h"
#include "autograd/product.h"
#include "autograd/product_kernels.h"
#include "autograd/stored_rows.h"

namespace headcount {
namespace {

constexpr double kProductTolerance = 1e-5;

TEST(Products, FollowTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const Product p = any_product(1, 90, 90);
    RC_ASSERT(p.error(p.run(gemm, Precision::f32)) < kProductTolerance);
    RC_ASSERT(p.error(p.run(parallel_gemm, Precision::f32)) < kProductTolerance);
  }));
}

TEST(PlainProducts, FollowTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const Product p = any_product(0, 40, 700);  // up to three depths of copied columns
    RC_ASSERT(p.error(p.run(plain_gemm)) < kProductTolerance);
  }));
}

TEST(Products, InParallelGiveTheSameBitsForAnyNumberOfThreads) {
  for (const Product& p : products_for_threads()) {
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      set_threads(1);
      const std::vector<Real> alone = p.run(parallel_gemm, precision);
      for (const int count : {2, 3, 8}) {
        set_threads(count);
        EXPECT_EQ(p.run(parallel_gemm, precision), alone)
            << p.m << " rows, " << count << " threads, precision " << static_cast<int>(precision);
      }
      if (precision == Precision::f32) {
        EXPECT_LT(p.error(alone), kProductTolerance);
      }
    }
  }
  set_threads(0);
}

TEST(Products, OfAnyLibraryRunOnTheCallingThreadAlone) {
  const Product p = {301, 275, 230, false, true, Write::assign, 3};
  for (const GemmLibrary library : {gemm_library(), GemmLibrary::eigen}) {
    const GemmLibrary before = gemm_library();
    use_gemm_library(library);
    set_threads(1);
    const std::vector<Real> alone = p.run(gemm, Precision::f32);
    EXPECT_LT(p.error(alone), kProductTolerance) << name(library);
    set_threads(8);
    EXPECT_EQ(p.run(gemm, Precision::f32), alone) << name(library);
    EXPECT_EQ(threads(), 8) << "a product left another number of threads behind";
    use_gemm_library(before);
  }
  set_threads(0);
}

// Eigen cuts products by these sizes and so groups sums by them.
TEST(Products, AreCutByTheSameCacheSizesOnAllMachines) {
  EXPECT_EQ(Eigen::l1CacheSize(), 32 * 1024);
  EXPECT_EQ(Eigen::l2CacheSize(), 512 * 1024);
  EXPECT_EQ(Eigen::l3CacheSize(), 4 * 1024 * 1024);
}

TEST(Products, AreCountedWhileACounterLives) {
  const Product p = {5, 6, 7, false, false, Write::assign, 0};
  p.run(gemm, Precision::f32);
  const MacCounter counter;
  EXPECT_EQ(counter.count(), 0);
  p.run(gemm, Precision::f32);
  p.run(parallel_gemm, Precision::f32);
  EXPECT_EQ(counter.count(), 2 * 5 * 6 * 7);
}

using Gemm = void (*)(Matrix, ConstMatrix, ConstMatrix, Write, Precision);

// How far a product in bf16 is from that of numbers rounded as a cache rounds them, with sums in
// Real.
double error(const Product& p, Gemm product = gemm) {
  Product of_rounded = p;
  of_rounded.a = stored(CacheType::bf16, p.a);
  of_rounded.b = stored(CacheType::bf16, p.b);
  return of_rounded.error(p.run(product, Precision::bf16));
}

TEST(RoundedProducts, AreProductsOfTheRoundedNumbersWithRealSums) {
  EXPECT_TRUE(rc::check([] {
    const Product p = any_product(32, 90, 90);
    RC_ASSERT(error(p) < kProductTolerance);
    RC_ASSERT(error(p, parallel_gemm) < kProductTolerance);
    RC_ASSERT(p.error(p.run(gemm, Precision::bf16)) > 100 * kProductTolerance);
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

TEST(RoundedProducts, AreComputedInRealByEigen) {
  const GemmLibrary library = gemm_library();
  const Product p = {70, 80, 90, false, true, Write::add, 0};
  use_gemm_library(GemmLibrary::eigen);
  EXPECT_NE(bf16_lacks(), "");
  EXPECT_LT(error(p), kProductTolerance);
  use_gemm_library(library);
}

// More sizes than a thread keeps products for.
TEST(RoundedProducts, StayRightForManySizes) {
  for (Index m = 8; m < 600; ++m) {
    const Product p = {m, 64, 64, false, false, Write::assign, 0};
    p.run(gemm, Precision::bf16);
    if (m % 16 == 0) {
      ASSERT_LT(error(p), kProductTolerance) << m;
    }
  }
}

}  // namespace
}  // namespace headcount
