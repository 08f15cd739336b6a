#include "autograd/products/products.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "autograd/any_size.h"
#include "autograd/cache/stored_rows.h"
#include "autograd/parallel.h"
#include "autograd/products/bf16.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/product_kernels.h"

namespace headcount {
namespace {

constexpr double kProductTolerance = 1e-5;

// A product c = a b of random matrices with rows that lie apart in memory.
struct Product {
  Index m, k, n;
  bool a_transposed, b_transposed;
  Write write;
  Index gap;  // between the end of a row and the next one
  std::vector<Real> a = normal_values("a", 0, (m + gap) * (k + gap));
  std::vector<Real> b = normal_values("b", 0, (k + gap) * (n + gap));
  std::vector<Real> c = normal_values("c", 0, m*(n + gap));

  ConstMatrix left() const { return operand(a, m, k, a_transposed); }
  ConstMatrix right() const { return operand(b, k, n, b_transposed); }

  // c after kernel(c, a, b, write, precision...).
  template <class Kernel, class... Precisions>
  std::vector<Real> run(Kernel kernel, Precisions... precision) const {
    std::vector<Real> result = c;
    kernel(Matrix(result.data(), m, n, n + gap), left(), right(), write, precision...);
    return result;
  }
  // Largest difference from the product by its definition, in double, over the deviation of its
  // sums; elements between rows stay as they are.
  double error(const std::vector<Real>& got) const {
    // Numbers side by side: this loop is compiled without optimization.
    const std::vector<double> left_rows = packed(left()), right_rows = packed(right());
    std::vector<double> expected(c.begin(), c.end());
    for (Index i = 0; i < m; ++i) {
      double* const to = expected.data() + i * (n + gap);
      if (write == Write::assign) std::fill_n(to, n, 0.0);
      for (Index l = 0; l < k; ++l) {
        const double x = left_rows[static_cast<std::size_t>(i * k + l)];
        const double* const row = right_rows.data() + l * n;
        for (Index j = 0; j < n; ++j) to[j] += x * row[j];
      }
    }
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]));
    return worst / std::sqrt(static_cast<double>(k + 1));
  }

 private:
  static std::vector<double> packed(const ConstMatrix& x) {
    std::vector<double> numbers;
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j)
        numbers.push_back(static_cast<double>(x.transposed ? x.data[j * x.stride + i]
                                                           : x.data[i * x.stride + j]));
    }
    return numbers;
  }
  ConstMatrix operand(const std::vector<Real>& x, Index rows, Index cols, bool transposed) const {
    return transposed ? ConstMatrix(x.data(), cols, rows, rows + gap).transpose()
                      : ConstMatrix(x.data(), rows, cols, cols + gap);
  }
};

// Product that rapidcheck draws: `least` to `most` rows and columns, sums of `least` to `deepest`.
Product any_product(Index least, Index most, Index deepest) {
  return {any_size(least, most), any_size(least, deepest), any_size(least, most),
          any_size(0, 1) == 1,   any_size(0, 1) == 1,      add_if(any_size(0, 1) == 1),
          any_size(0, 9)};
}

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

// Products of few rows and of many, and one that is cut along k, in all ways to store and write.
TEST(Products, InParallelGiveTheSameBitsForAnyNumberOfThreads) {
  constexpr std::pair<Index, Index> kSizes[] = {{1, 130}, {7, 130}, {301, 130}, {20, 5000}};
  for (int flags = 0; flags < 32; ++flags) {
    const auto [m, k] = kSizes[flags / 8];
    const Product p = {m, k, 75, (flags & 1) != 0, (flags & 2) != 0, add_if((flags & 4) != 0), 3};
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

TEST(Products, RunOnTheCallingThreadAlone) {
  const Product p = {301, 275, 230, false, true, Write::assign, 3};
  set_threads(1);
  const std::vector<Real> alone = p.run(gemm, Precision::f32);
  EXPECT_LT(p.error(alone), kProductTolerance);
  set_threads(8);
  EXPECT_EQ(p.run(gemm, Precision::f32), alone);
  EXPECT_EQ(threads(), 8) << "a product left another number of threads behind";
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

TEST(RoundedProducts, ReadOperandsThatAreRoundedAlready) {
  for (int flags = 0; flags < 8; ++flags) {
    const Product p = {301, 130, 75, (flags & 1) != 0, (flags & 2) != 0, add_if(flags > 3), 3};
    std::vector<Eigen::bfloat16> a(p.a.size()), b(p.b.size());
    round_to_bf16(p.a.data(), std::ssize(p.a), a.data());
    round_to_bf16(p.b.data(), std::ssize(p.b), b.data());
    ConstMatrix left = p.left(), right = p.right();
    left.rounded = a.data(), right.rounded = b.data();
    std::vector<Real> result = p.c;
    parallel_gemm(Matrix(result.data(), p.m, p.n, p.n + p.gap), left, right, p.write,
                  Precision::bf16);
    EXPECT_EQ(result, p.run(parallel_gemm, Precision::bf16)) << flags;
    std::ranges::fill(a, Eigen::bfloat16(0));
    parallel_gemm(Matrix(result.data(), p.m, p.n, p.n + p.gap), left, right, Write::assign,
                  Precision::bf16);
    EXPECT_EQ(result.front(), 0) << "the numbers were rounded again";
  }
}

// Sums of any length, rows that no tile has whole, columns of one and of several tiles.
TEST(RoundedProducts, OfSmallMatricesAreThoseOfTheRoundedNumbers) {
  EXPECT_TRUE(rc::check([] {
    Product p = any_product(1, 90, 90);
    p.n = 16 * any_size(1, 5), p.b_transposed = false;
    p.b = normal_values("b", 0, (p.k + p.gap) * (p.n + p.gap));
    p.c = normal_values("c", 0, p.m * (p.n + p.gap));
    Product of_operands = p;
    if (tiles::available()) {
      of_operands.a = stored(CacheType::bf16, p.a);
      of_operands.b = stored(CacheType::bf16, p.b);
    }
    const tiles::Scope scope(tiles::available());
    RC_ASSERT(of_operands.error(p.run(tiles::multiply)) < kProductTolerance);
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
