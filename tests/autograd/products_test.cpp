// programs: autograd in_double
#include "autograd/products.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>

#include "autograd/parallel.h"
#include "autograd/product.h"
#include "autograd/product_kernels.h"

namespace headcount {
namespace {

constexpr double kProductTolerance = sizeof(Real) == 8 ? 1e-13 : 1e-5;

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
    set_threads(1);
    const std::vector<Real> alone = p.run(parallel_gemm, Precision::f32);
    for (const int count : {2, 3, 8}) {
      set_threads(count);
      EXPECT_EQ(p.run(parallel_gemm, Precision::f32), alone)
          << p.m << " rows, " << count << " threads";
    }
    EXPECT_LT(p.error(alone), kProductTolerance);
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

}  // namespace
}  // namespace headcount
