#include "autograd/cache/cache_format.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "autograd/cache/stored_rows.h"
#include "support/message_of.h"

namespace headcount {
namespace {

// Max (1960), table I. The deviation of a squared error is less than twice its mean.
TEST(CacheLevels, OfNormalNumbersHaveTheErrorsOfMax) {
  constexpr Index kCount = 400'000;
  const Values numbers = normal_values(1, kCount);
  for (const auto& [type, expected] : {std::pair(CacheType::int1, 0.3634),
                                       {CacheType::int2, 0.1175},
                                       {CacheType::int3, 0.03454},
                                       {CacheType::int4, 0.009497}}) {
    CacheFormat format = type;
    format.levels = CacheLevels::normal;
    const Values read = stored(format, numbers);
    double sum = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      sum += std::pow(static_cast<double>(read[i] - numbers[i]), 2);
    EXPECT_NEAR(sum / kCount, expected, 4 * 2 * expected / std::sqrt(kCount)) << row_of(type).name;
  }
}

// Any number is at most half a step from a level; the scale is rounded to f16.
TEST(CacheLevels, ThatAreUniformAreNearestUpToTheGreatestNumber) {
  for (const auto& [type, steps] : {std::pair(CacheType::int8, 254),
                                    {CacheType::int4, 15},
                                    {CacheType::int3, 7},
                                    {CacheType::int2, 3},
                                    {CacheType::int1, 1}}) {
    const Values numbers = normal_values(2, 500, 3);
    const Values read = stored(type, numbers);
    const auto size = [](const Values& all) {
      const auto [least, most] = std::ranges::minmax(all);
      return static_cast<double>(std::max(-least, most));
    };
    const double greatest = size(numbers);
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(read[i] - numbers[i])));
    EXPECT_LE(worst, greatest / steps * (1 + 0x1p-9)) << row_of(type).name;
    EXPECT_GT(worst, greatest / steps * 0.9) << row_of(type).name;
    EXPECT_NEAR(size(read), size(numbers), size(numbers) * 0x1p-10) << row_of(type).name;
  }
}

TEST(CacheBytes, AreThoseOfBitsAndScalesOfEachGroup) {
  CacheFormat format = CacheType::int3;
  EXPECT_EQ(row_bytes(format, 10), 2 + 4);
  format.group = 5;
  EXPECT_EQ(row_bytes(format, 10), 2 * (2 + 2));
  EXPECT_EQ(row_bytes(CacheType::fp8, 64), 64);
  EXPECT_EQ(row_bytes(CacheType::bf16, 5), 10);
  EXPECT_EQ(message_of<ShapeError>([&] { row_bytes(format, 32); }),
            "`cache-group` 5 does not divide the 32 numbers of a cached row; 4 does");
  format = CacheType::int4;
  format.group = 32;
  EXPECT_EQ(row_bytes(format, 128), 4 * 18);  // llama.cpp's q4_0
}

// A packed group fills its bytes and no other, and its columns are read alike in any pieces.
TEST(CacheTypes, PackAnyGroupIntoItsBytesAndReadItInAnyPieces) {
  EXPECT_TRUE(rc::check([] {
    const CacheTypeRow& type =
        cache_types()[*rc::gen::inRange<std::size_t>(0, cache_types().size())];
    const auto levels = *rc::gen::element(CacheLevels::uniform, CacheLevels::normal);
    const Index count = *rc::gen::inRange<Index>(1, 40);
    const Values numbers = normal_values(*rc::gen::arbitrary<std::uint32_t>(), count);
    constexpr std::byte kMark{0xa5};
    const auto bytes = static_cast<std::size_t>(row_bytes(type.type, count));
    std::vector<std::byte> packed(bytes + 8, kMark);
    type.pack(numbers.data(), count, levels, packed.data());
    RC_ASSERT(std::all_of(packed.begin() + static_cast<Index>(bytes), packed.end(),
                          [](std::byte b) { return b == kMark; }));
    Values all(static_cast<std::size_t>(count));
    type.read(packed.data(), 0, count, levels, all.data());
    const Index first = *rc::gen::inRange<Index>(0, count);
    Values some(static_cast<std::size_t>(*rc::gen::inRange<Index>(0, count - first + 1)));
    type.read(packed.data(), first, std::ssize(some), levels, some.data());
    RC_ASSERT(std::equal(some.begin(), some.end(), all.begin() + first));
    // What was read is stored as it is, but for the scale of normal levels.
    if (levels == CacheLevels::normal && type.has_levels) return;
    type.pack(all.data(), count, levels, packed.data());
    Values again(all.size());
    type.read(packed.data(), 0, count, levels, again.data());
    for (std::size_t i = 0; i < all.size(); ++i)
      RC_ASSERT(std::abs(again[i] - all[i]) <= std::abs(all[i]) * Real{0x1p-9});
  }));
}

// Finite numbers of a binary type from 0 on, in the order of their codes.
Values numbers_of(int exponent_bits, int fraction_bits, Index count) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Values numbers;
  for (Index code = 0; code < count; ++code) {
    const auto exponent = static_cast<int>(code >> fraction_bits);
    const Index one = Index{1} << fraction_bits, fraction = code % one;
    numbers.push_back(
        static_cast<Real>(std::ldexp(static_cast<double>(exponent == 0 ? fraction : one + fraction),
                                     std::max(exponent, 1) - bias - fraction_bits)));
  }
  return numbers;
}

// Every number, and those half way to the next and a little to either side, of the other sign.
TEST(CacheTypes, WithAnExponentHoldTheirNumbersAndRoundToTheNearest) {
  for (const auto& [type, exponent_bits, fraction_bits, count] :
       {std::tuple(CacheType::fp8, 4, 3, Index{127}),
        {CacheType::f16, 5, 10, Index{0x7c00}},
        {CacheType::bf16, 8, 7, Index{0x7f80}}}) {
    const Values numbers = numbers_of(exponent_bits, fraction_bits, count);
    for (const Values& all : {numbers, Values(numbers.rbegin(), numbers.rend())})
      EXPECT_TRUE(stored(type, all) == all) << row_of(type).name;
    Values between, expected;
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
      const Real middle = numbers[i] / 2 + numbers[i + 1] / 2;
      const Real step = (numbers[i + 1] - middle) / 16;
      between.insert(between.end(), {-(middle - step), -middle, -(middle + step)});
      expected.insert(expected.end(), {-numbers[i], -numbers[i + i % 2], -numbers[i + 1]});
    }
    EXPECT_TRUE(stored(type, between) == expected) << row_of(type).name;
  }
  Values with_nan(64, 448);
  with_nan[40] = std::numeric_limits<Real>::quiet_NaN();
  const Values read = stored(CacheType::fp8, with_nan);
  EXPECT_TRUE(std::isnan(read[40]));
  EXPECT_EQ(std::ranges::count(read, Real{448}), 63);
  EXPECT_EQ(numbers_of(4, 3, 127).back(), 448);
  EXPECT_EQ(numbers_of(5, 10, 0x7c00).back(), 65504);
}

TEST(RotatedRows, KeepTheirLengthAndTurnBack) {
  for (const Index width : {2, 6, 24, 64, 96}) {
    const Values row = normal_values(3, width);
    Values turned = row;
    rotate_row(turned.data(), width, rotated_block(width));
    EXPECT_GT(difference(turned, row), 0.01);
    const auto squares = [](const Values& x) {
      return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    };
    EXPECT_NEAR(squares(turned), squares(row), 1e-4);
    rotate_row(turned.data(), width, rotated_block(width));
    EXPECT_LT(difference(turned, row), 1e-5);
  }
}

}  // namespace
}  // namespace headcount
