#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "autograd/cache_format.h"
#include "autograd/parallel.h"
#include "autograd/product.h"

namespace headcount {
namespace {

std::vector<Real> rounded(std::vector<Real> numbers) {
  for (Real& x : numbers) x = static_cast<Real>(static_cast<Eigen::bfloat16>(x));
  return numbers;
}

// Numbers as bits of a float32, and of the bfloat16 nearest to them: ties to even, to both sides;
// the least subnormal number and half of it; the greatest number, and what rounds to infinity.
TEST(Bfloat16, IsTheNearestNumber) {
  constexpr std::uint32_t kPairs[][2] = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
      {0xbf818000, 0xbf82}, {0x00010000, 0x0001}, {0x00008000, 0x0000}, {0x00008001, 0x0001},
      {0x7f7f0000, 0x7f7f}, {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0xff7fffff, 0xff80},
      {0x7f800000, 0x7f80}};
  for (const auto& [from, nearest] : kPairs)
    EXPECT_EQ(static_cast<Eigen::bfloat16>(std::bit_cast<float>(from)).value, nearest) << from;
  const auto nan = static_cast<Eigen::bfloat16>(std::bit_cast<float>(0x7f800001U));
  EXPECT_TRUE(std::isnan(static_cast<float>(nan)));
}

TEST(Bfloat16, IsReadFromACacheAsItsBitsSay) {
  std::vector<std::uint16_t> codes(0x10000);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  std::vector<Real> read(codes.size());
  row_of(CacheType::bf16)
      .read(reinterpret_cast<const std::byte*>(codes.data()), 0, std::ssize(codes),
            CacheLevels::uniform, read.data());
  for (const std::uint16_t code : codes) {
    const auto wanted = std::bit_cast<float>(std::uint32_t{code} << 16);
    const auto got = static_cast<float>(read[code]);
    ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted) << code;
  }
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
