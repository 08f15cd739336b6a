#include "autograd/row_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/random.h"

namespace headcount {
namespace {

constexpr Index kRowWidth = 6, kRowHeads = 2, kTokens = 50;

// Rows [heads, width] of one token, of sizes from 1e-3 to 1e3.
std::vector<Real> rows_of(Index token) {
  const double size = std::pow(10.0, static_cast<double>(token % 7 - 3));
  std::vector<Real> rows;
  for (Index i = 0; i < kRowHeads * kRowWidth; ++i) {
    const auto counter = static_cast<std::uint64_t>(token * kRowHeads * kRowWidth + i);
    rows.push_back(static_cast<Real>(size * random_normal({5, 2, 0}, counter)));
  }
  return rows;
}

// Calls check(written, read, greatest of the row) for each number of each row.
template <class Check>
void for_numbers(CacheType type, const Check& check) {
  RowCache cache(1, kRowHeads, kRowWidth, kTokens, type);
  std::vector<Real> scratch(kRowWidth);
  for (Index token = 0; token < kTokens; ++token) {
    const std::vector<Real> rows = rows_of(token);
    cache.write(0, token, rows.data());
    for (Index head = 0; head < kRowHeads; ++head) {
      const auto row =
          std::span(rows).subspan(static_cast<std::size_t>(head * kRowWidth), kRowWidth);
      double greatest = 0;
      for (const Real x : row) greatest = std::max(greatest, std::abs(static_cast<double>(x)));
      const ConstMatrix read = cache.read(0, head, token, 1, 0, kRowWidth, scratch.data());
      for (std::size_t i = 0; i < row.size(); ++i)
        check(static_cast<double>(row[i]), static_cast<double>(read.data[i]), greatest);
    }
  }
}

TEST(RowCache, KeepsRealNumbersAsTheyAre) {
  for_numbers(CacheType::real,
              [](double written, double read, double) { EXPECT_EQ(read, written); });
}

// Eleven significant bits: half a unit of the last is 2^-12 of the next power of two.
TEST(RowCache, RoundsHalvesToTheNearest) {
  for_numbers(CacheType::f16, [](double written, double read, double) {
    EXPECT_NEAR(read, written, std::max(std::abs(written) / 2048, 0x1p-25));
  });
}

// Eight significant bits: half a unit of the last is 2^-9 of the next power of two.
TEST(RowCache, RoundsBfloat16ToTheNearest) {
  double worst = 0;
  for_numbers(CacheType::bf16, [&](double written, double read, double) {
    EXPECT_NEAR(read, written, std::abs(written) / 256);
    worst = std::max(worst, std::abs(read - written) / std::abs(written));
  });
  EXPECT_GT(worst, 0.8 / 256) << "finer than eight bits: not bfloat16";
}

// Numbers half way between two that bfloat16 has, and one on either side of the half.
TEST(RowCache, RoundsBfloat16AtTheHalfToTheEvenNumber) {
  constexpr Index kWidth = 33;  // more than a vector of the processor, and not a multiple of it
  constexpr double kUnit = 0x1p-7;
  for (const Index odd : {0, 1}) {
    const double below = 1 + static_cast<double>(odd) * kUnit, above = below + kUnit;
    for (const double from_half : {-0x1p-20, 0.0, 0x1p-20}) {
      const std::vector<Real> row(kWidth, static_cast<Real>((below + above) / 2 + from_half));
      RowCache cache(1, 1, kWidth, 1, CacheType::bf16);
      cache.write(0, 0, row.data());
      std::vector<Real> scratch(kWidth);
      const ConstMatrix read = cache.read(0, 0, 0, 1, 0, kWidth, scratch.data());
      const bool up = from_half > 0 || (from_half == 0 && odd == 1);
      for (Index i = 0; i < kWidth; ++i)
        EXPECT_EQ(static_cast<double>(read.data[i]), up ? above : below) << odd << from_half;
    }
  }
}

// Reads every bfloat16 but NaN, in whole rows and in columns of rows.
TEST(RowCache, ReadsEveryBfloat16AsItIs) {
  constexpr Index kLong = 31, kRows = (0x7f81 + kLong - 1) / kLong, kCount = kLong * kRows;
  std::vector<Real> numbers;
  for (Index i = 0; i < kCount; ++i) {
    const auto upper = static_cast<std::uint32_t>(std::min<Index>(i, 0x7f80));  // infinity is last
    const std::uint32_t sign = i % 3 == 0 ? 0x8000 : 0;
    numbers.push_back(static_cast<Real>(std::bit_cast<float>((upper | sign) << 16)));
  }
  RowCache cache(1, 1, kLong, kRows, CacheType::bf16);
  for (Index row = 0; row < kRows; ++row) cache.write(0, row, numbers.data() + row * kLong);
  std::vector<Real> scratch(static_cast<std::size_t>(kCount));
  for (const auto& [first, width] : {std::pair<Index, Index>{0, kLong}, {3, 17}, {5, 8}}) {
    const ConstMatrix read = cache.read(0, 0, 0, kRows, first, width, scratch.data());
    for (Index row = 0; row < kRows; ++row) {
      const Real* const written = numbers.data() + row * kLong + first;
      ASSERT_TRUE(std::equal(written, written + width, read.data + row * read.stride))
          << "row " << row << ", columns from " << first;
    }
  }
}

// Whole rows, and columns of rows, in runs that do and do not fill a vector of the processor.
TEST(RowCache, ReadsEveryHalfAsItIs) {
  constexpr Index kCount = 31 * 1024, kLong = 31, kRows = kCount / kLong;  // halves of one sign
  std::vector<Real> numbers;
  for (Index bits = 0; bits < kCount; ++bits) {
    const Index exponent = bits / 1024, fraction = bits % 1024;
    const double size = exponent == 0 ? std::ldexp(static_cast<double>(fraction), -24)
                                      : std::ldexp(static_cast<double>(1024 + fraction),
                                                   static_cast<int>(exponent) - 25);
    numbers.push_back(static_cast<Real>(bits % 3 == 0 ? -size : size));
  }
  numbers[77] = std::numeric_limits<Real>::infinity();
  RowCache cache(1, 1, kLong, kRows, CacheType::f16);
  for (Index row = 0; row < kRows; ++row) cache.write(0, row, numbers.data() + row * kLong);
  std::vector<Real> scratch(static_cast<std::size_t>(kCount));
  for (const auto& [first, width] : {std::pair<Index, Index>{0, kLong}, {3, 17}, {5, 8}}) {
    const ConstMatrix read = cache.read(0, 0, 0, kRows, first, width, scratch.data());
    for (Index row = 0; row < kRows; ++row) {
      const Real* const written = numbers.data() + row * kLong + first;
      ASSERT_TRUE(std::equal(written, written + width, read.data + row * read.stride))
          << "row " << row << ", columns from " << first;
    }
  }
}

// Steps of greatest / 127, so that rounding is at most half of one.
TEST(RowCache, RoundsBytesByAtMostHalfAStepOfTheirRow) {
  double worst = 0;
  for_numbers(CacheType::int8, [&](double written, double read, double greatest) {
    EXPECT_NEAR(read, written, greatest / 254 * (1 + 0x1p-9));  // the scale itself is rounded
    worst = std::max(worst, std::abs(read - written) / greatest);
  });
  EXPECT_GT(worst, 0.9 / 254) << "finer than 127 steps: not bytes";
}

TEST(RowCache, ReadsBytesOfNumbersTooSmallForAStepAsZeros) {
  RowCache cache(1, 1, kRowWidth, 1, CacheType::int8);
  const std::vector<Real> tiny(kRowWidth, std::numeric_limits<Real>::denorm_min());
  cache.write(0, 0, tiny.data());
  std::vector<Real> scratch(kRowWidth);
  const ConstMatrix read = cache.read(0, 0, 0, 1, 0, kRowWidth, scratch.data());
  for (std::size_t i = 0; i < kRowWidth; ++i) EXPECT_EQ(read.data[i], 0);
}

// A type with a scale marks the whole group, others the number.
TEST(RowCache, ReadsARowThatIsNotFiniteAsNotFinite) {
  for (const CacheTypeRow& type : cache_types()) {
    for (const Real wrong :
         {std::numeric_limits<Real>::quiet_NaN(), -std::numeric_limits<Real>::infinity()}) {
      RowCache cache(1, 1, kRowWidth, 1, type.type);
      std::vector<Real> row(kRowWidth, Real{1}), scratch(kRowWidth);
      row[1] = wrong;
      cache.write(0, 0, row.data());
      const ConstMatrix read = cache.read(0, 0, 0, 1, 0, kRowWidth, scratch.data());
      EXPECT_FALSE(std::isfinite(read.data[1])) << type.name;
      for (std::size_t i = 0; i < kRowWidth && type.scale_bytes > 0; ++i)
        EXPECT_TRUE(std::isnan(read.data[i])) << type.name << i;
    }
  }
}

TEST(RowCache, RefusesFiniteNumbersThatItsTypeCannotHold) {
  constexpr Real kGreatest = std::numeric_limits<Real>::max();
  for (const auto& [type, name, held, beyond] :
       {std::tuple(CacheType::f16, "f16", Real{65519}, Real{65520}),
        {CacheType::bf16, "bf16", Real{3.38e38F}, kGreatest},
        {CacheType::fp8, "fp8", Real{464}, Real{465}},
        {CacheType::int8, "int8", Real{254} / 16 * 65500, Real{254} / 16 * 65530},
        {CacheType::int4, "int4", Real{15} * 65500, Real{15} * 65530},
        {CacheType::int2, "int2", Real{3} * 65500, Real{3} * 65530}}) {
    RowCache cache(1, 2, kRowWidth, 1, type);
    std::vector<Real> rows(2 * kRowWidth, -held);
    EXPECT_NO_THROW(cache.write(0, 0, rows.data())) << name;
    rows[kRowWidth + 1] = -beyond;
    try {
      cache.write(0, 0, rows.data());
      ADD_FAILURE() << name;
    } catch (const NonFiniteError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("the " + std::string(name) + " KV cache"))
          << error.what();
    }
  }
}

TEST(RowCache, ReadsRowsOfZerosAsZeros) {
  for (const CacheTypeRow& type : cache_types()) {
    for (const CacheLevels levels : {CacheLevels::uniform, CacheLevels::normal}) {
      CacheFormat format = type.type;
      format.levels = levels;
      RowCache cache(1, 1, kRowWidth, 1, format);
      const std::vector<Real> zeros(kRowWidth, 0);
      std::vector<Real> scratch(kRowWidth, 1);
      cache.write(0, 0, zeros.data());
      const ConstMatrix read = cache.read(0, 0, 0, 1, 0, kRowWidth, scratch.data());
      EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), read.data)) << type.name;
    }
  }
}

}  // namespace
}  // namespace headcount
