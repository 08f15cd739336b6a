#include "autograd/products.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>
#include <cmath>

#include "autograd/any_size.h"
#include "autograd/evaluation.h"
#include "autograd/parallel.h"
#include "autograd/product_kernels.h"

namespace headcount {
namespace {

constexpr double kProductTolerance = sizeof(Real) == 8 ? 1e-13 : 1e-5;

// A product c = a b with rows that lie apart in memory.
struct Product {
  Index m, k, n;
  bool a_transposed, b_transposed, accumulate;
  Index gap;  // between the end of a row and the next one
  std::vector<Real> a = normal_values("a", 0, (m + gap) * (k + gap));
  std::vector<Real> b = normal_values("b", 0, (k + gap) * (n + gap));
  std::vector<Real> c = normal_values("c", 0, m*(n + gap));

  ConstMatrix left() const {
    return a_transposed ? ConstMatrix(a.data(), k, m, m + gap).transpose()
                        : ConstMatrix(a.data(), m, k, k + gap);
  }
  ConstMatrix right() const {
    return b_transposed ? ConstMatrix(b.data(), n, k, k + gap).transpose()
                        : ConstMatrix(b.data(), k, n, n + gap);
  }
  std::vector<Real> run() const {
    std::vector<Real> result = c;
    gemm(Matrix(result.data(), m, n, n + gap), left(), right(), add_if(accumulate));
    return result;
  }
  std::vector<Real> run_plain() const {
    std::vector<Real> result = c;
    plain_gemm(Matrix(result.data(), m, n, n + gap), left(), right(), add_if(accumulate));
    return result;
  }
  std::vector<Real> run_in_parallel() const {
    std::vector<Real> result = c;
    parallel_gemm(Matrix(result.data(), m, n, n + gap), left(), right(), add_if(accumulate));
    return result;
  }
  // Product by its definition, in double; elements between rows stay as they are.
  std::vector<double> expected() const {
    const auto at = [](const ConstMatrix& x, Index i, Index j) {
      return static_cast<double>(x.transposed ? x.data[j * x.stride + i]
                                              : x.data[i * x.stride + j]);
    };
    std::vector<double> result(c.begin(), c.end());
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        double& to = result[static_cast<std::size_t>(i * (n + gap) + j)];
        if (!accumulate) to = 0;
        for (Index l = 0; l < k; ++l) to += at(left(), i, l) * at(right(), l, j);
      }
    }
    return result;
  }
};

double difference(const std::vector<Real>& a, const std::vector<double>& b, Index k) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return worst / std::sqrt(static_cast<double>(k + 1));
}

TEST(Products, FollowTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const Product p = {any_size(1, 90),     any_size(1, 90),     any_size(1, 90),
                       any_size(0, 1) == 1, any_size(0, 1) == 1, any_size(0, 1) == 1,
                       any_size(0, 9)};
    RC_ASSERT(difference(p.run(), p.expected(), p.k) < kProductTolerance);
    RC_ASSERT(difference(p.run_in_parallel(), p.expected(), p.k) < kProductTolerance);
  }));
}

TEST(PlainProducts, FollowTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    // Up to three depths of copied columns.
    const Product p = {any_size(0, 40),     any_size(0, 700),    any_size(0, 40),
                       any_size(0, 1) == 1, any_size(0, 1) == 1, any_size(0, 1) == 1,
                       any_size(0, 9)};
    RC_ASSERT(difference(p.run_plain(), p.expected(), p.k) < kProductTolerance);
  }));
}

TEST(Products, InParallelGiveTheSameBitsForAnyNumberOfThreads) {
  // The last is cut along k.
  for (const auto& [m, k] : {std::pair<Index, Index>{1, 130}, {7, 130}, {301, 130}, {20, 5000}}) {
    for (int flags = 0; flags < 8; ++flags) {
      const Product p = {m, k, 75, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, 3};
      set_threads(1);
      const std::vector<Real> alone = p.run_in_parallel();
      for (const int count : {2, 3, 8}) {
        set_threads(count);
        EXPECT_EQ(p.run_in_parallel(), alone) << m << " rows, " << count << " threads";
      }
      EXPECT_LT(difference(alone, p.expected(), p.k), kProductTolerance);
    }
  }
  set_threads(0);
}

TEST(Products, OfAnyLibraryRunOnTheCallingThreadAlone) {
  const Product p = {301, 275, 230, false, true, false, 3};
  for (const GemmLibrary library : {gemm_library(), GemmLibrary::eigen}) {
    const GemmLibrary before = gemm_library();
    use_gemm_library(library);
    set_threads(1);
    const std::vector<Real> alone = p.run();
    EXPECT_LT(difference(alone, p.expected(), p.k), kProductTolerance) << name(library);
    set_threads(8);
    EXPECT_EQ(p.run(), alone) << name(library);
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
  const Product p = {5, 6, 7, false, false, false, 0};
  p.run();
  const MacCounter counter;
  EXPECT_EQ(counter.count(), 0);
  p.run();
  p.run_in_parallel();
  EXPECT_EQ(counter.count(), 2 * 5 * 6 * 7);
}

}  // namespace
}  // namespace headcount
