#include "autograd/cache_format.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/random.h"
#include "autograd/row_cache.h"

namespace headcount {
namespace {

std::vector<Real> normal_numbers(std::uint32_t seed, Index count, double size = 1) {
  std::vector<Real> numbers;
  for (Index i = 0; i < count; ++i)
    numbers.push_back(
        static_cast<Real>(size * random_normal({seed, 3, 0}, static_cast<std::uint64_t>(i))));
  return numbers;
}

// Numbers after a cache of that format has stored them as one row.
std::vector<Real> stored(const CacheFormat& format, const std::vector<Real>& row) {
  RowCache cache(1, 1, std::ssize(row), 1, format);
  cache.write(0, 0, row.data());
  std::vector<Real> scratch(row.size());
  const ConstMatrix read = cache.read(0, 0, 0, 1, 0, std::ssize(row), scratch.data());
  return {read.data, read.data + read.cols};
}

TEST(CacheTypes, AreListedByIndexAndName) {
  for (std::size_t i = 0; i < cache_types().size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(cache_types()[i].type), i) << cache_types()[i].name;
  EXPECT_EQ(row_of(CacheType::int3).name, "int3");
}

// Max (1960), table I. The deviation of a squared error is less than twice its mean.
TEST(CacheLevels, OfNormalNumbersHaveTheErrorsOfMax) {
  constexpr Index kCount = 400'000;
  const std::vector<Real> numbers = normal_numbers(1, kCount);
  for (const auto& [type, expected] : {std::pair(CacheType::int1, 0.3634),
                                       {CacheType::int2, 0.1175},
                                       {CacheType::int3, 0.03454},
                                       {CacheType::int4, 0.009497}}) {
    CacheFormat format = type;
    format.levels = CacheLevels::normal;
    const std::vector<Real> read = stored(format, numbers);
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
    const std::vector<Real> numbers = normal_numbers(2, 500, 3);
    const std::vector<Real> read = stored(type, numbers);
    const auto size = [](const std::vector<Real>& all) {
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
  const auto bytes = [](CacheType type, Index width, Index group) {
    CacheFormat format = type;
    format.group = group;
    return row_bytes(format, width);
  };
  EXPECT_EQ(bytes(CacheType::int3, 10, 0), 2 + 4);
  EXPECT_EQ(bytes(CacheType::int3, 10, 5), 2 * (2 + 2));
  EXPECT_EQ(bytes(CacheType::int4, 128, 32), 4 * 18);  // llama.cpp's q4_0
  EXPECT_EQ(bytes(CacheType::int2, 64, 0), 2 + 16);
  EXPECT_EQ(bytes(CacheType::int8, 64, 0), 2 + 64);
  EXPECT_EQ(bytes(CacheType::fp8, 64, 0), 64);
  EXPECT_EQ(bytes(CacheType::bf16, 5, 0), 10);
  try {
    bytes(CacheType::int4, 32, 24);
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "`cache-group` 24 does not divide the 32 numbers of a cached row; 16 does");
  }
}

// A packed group fills its bytes and no other, and its columns are read alike in any pieces.
TEST(CacheTypes, PackAnyGroupIntoItsBytesAndReadItInAnyPieces) {
  EXPECT_TRUE(rc::check([] {
    const CacheTypeRow& type =
        cache_types()[*rc::gen::inRange<std::size_t>(0, cache_types().size())];
    const auto levels = *rc::gen::element(CacheLevels::uniform, CacheLevels::normal);
    const Index count = *rc::gen::inRange<Index>(1, 40);
    const std::vector<Real> numbers = normal_numbers(*rc::gen::arbitrary<std::uint32_t>(), count);
    constexpr std::byte kMark{0xa5};
    const auto bytes = static_cast<std::size_t>(row_bytes(type.type, count));
    std::vector<std::byte> packed(bytes + 8, kMark);
    type.pack(numbers.data(), count, levels, packed.data());
    RC_ASSERT(std::all_of(packed.begin() + static_cast<Index>(bytes), packed.end(),
                          [](std::byte b) { return b == kMark; }));
    std::vector<Real> all(static_cast<std::size_t>(count));
    type.read(packed.data(), 0, count, levels, all.data());
    const Index first = *rc::gen::inRange<Index>(0, count);
    std::vector<Real> some(
        static_cast<std::size_t>(*rc::gen::inRange<Index>(0, count - first + 1)));
    type.read(packed.data(), first, std::ssize(some), levels, some.data());
    RC_ASSERT(std::equal(some.begin(), some.end(), all.begin() + first));
    // What was read is stored as it is, but for the scale of normal levels.
    if (levels == CacheLevels::normal && type.has_levels) return;
    type.pack(all.data(), count, levels, packed.data());
    std::vector<Real> again(all.size());
    type.read(packed.data(), 0, count, levels, again.data());
    for (std::size_t i = 0; i < all.size(); ++i)
      RC_ASSERT(std::abs(again[i] - all[i]) <= std::abs(all[i]) * Real{0x1p-9});
  }));
}

// Rows of several groups and heads, written in turn into a ring, keep to themselves.
TEST(RowCache, KeepsEachGroupOfEachRowApart) {
  EXPECT_TRUE(rc::check([] {
    CacheFormat format =
        cache_types()[*rc::gen::inRange<std::size_t>(0, cache_types().size())].type;
    format.group = *rc::gen::inRange<Index>(1, 12);
    const Index width = format.group * *rc::gen::inRange<Index>(1, 4);
    const Index capacity = *rc::gen::inRange<Index>(1, 5), heads = 2, tokens = 7;
    RowCache cache(1, heads, width, capacity, format);
    for (Index t = 0; t < tokens; ++t)
      cache.write(0, t, normal_numbers(static_cast<std::uint32_t>(t), heads * width).data());
    std::vector<Real> scratch(static_cast<std::size_t>(width));
    for (Index t = tokens - capacity; t < tokens; ++t) {
      const std::vector<Real> rows = normal_numbers(static_cast<std::uint32_t>(t), heads * width);
      for (Index i = 0; i < heads * width; i += format.group) {
        const auto group = std::vector<Real>(rows.begin() + i, rows.begin() + i + format.group);
        const ConstMatrix read =
            cache.read(0, i / width, cache.slot(t), 1, i % width, format.group, scratch.data());
        RC_ASSERT(
            std::ranges::equal(stored(format.type, group), std::span(read.data, group.size())));
      }
    }
  }));
}

TEST(Fp8, HasTheNumbersOfE4m3AndRoundsToTheNearest) {
  std::vector<Real> numbers;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code / 8, fraction = code % 8;
    numbers.push_back(static_cast<Real>(
        exponent == 0 ? fraction / 512.0 : std::ldexp(1 + fraction / 8.0, exponent - 7)));
  }
  EXPECT_EQ(numbers.back(), 448);
  EXPECT_EQ(stored(CacheType::fp8, numbers), numbers);
  std::vector<Real> between, expected;
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const Real middle = (numbers[i] + numbers[i + 1]) / 2, step = (numbers[i + 1] - middle) / 16;
    between.insert(between.end(), {-(middle - step), -middle, -(middle + step)});
    expected.insert(expected.end(), {-numbers[i], -numbers[i + i % 2], -numbers[i + 1]});
  }
  EXPECT_EQ(stored(CacheType::fp8, between), expected);
}

TEST(RotatedRows, KeepProductsAndTurnBack) {
  for (const Index width : {2, 6, 24, 64, 96}) {
    const Index block = rotated_block(width);
    EXPECT_EQ(width % block, 0);
    const std::vector<Real> a = normal_numbers(3, width), b = normal_numbers(4, width);
    std::vector<Real> turned_a = a, turned_b = b;
    rotate_row(turned_a.data(), width, block);
    rotate_row(turned_b.data(), width, block);
    EXPECT_NE(turned_a, a);
    EXPECT_NEAR(std::inner_product(turned_a.begin(), turned_a.end(), turned_b.begin(), 0.0),
                std::inner_product(a.begin(), a.end(), b.begin(), 0.0), 1e-4);
    rotate_row(turned_a.data(), width, block);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(turned_a[i], a[i], 1e-5);
  }
  CacheFormat format;
  format.rotated = true;
  EXPECT_THROW(row_bytes(format, 5), ShapeError);
}

// Columns of rotated rows come back as they were written, those that cut a block included.
TEST(RotatedRows, AreReadAsTheyWereWritten) {
  CacheFormat format;
  format.rotated = true;
  constexpr Index kWidth = 24;
  RowCache cache(1, 1, kWidth, 2, format);
  const std::vector<Real> row = normal_numbers(5, kWidth);
  cache.write(0, 1, row.data());
  std::vector<Real> scratch(kWidth);
  for (const auto& [first, width] : {std::pair<Index, Index>{0, 24}, {8, 8}, {3, 7}, {23, 1}}) {
    const ConstMatrix read = cache.read(0, 0, 1, 1, first, width, scratch.data());
    for (Index i = 0; i < width; ++i)
      EXPECT_NEAR(read.data[i], row[static_cast<std::size_t>(first + i)], 1e-5);
  }
}

// The newest tokens are exact, the others as in a cache without recent tokens, also where the ring
// has gone round.
TEST(RecentRows, AreUnroundedUntilTokensAreOlder) {
  constexpr Index kWidth = 8, kHeads = 2, kSequences = 2;
  for (const bool rotated : {false, true}) {
    for (const Index capacity : {1, 2, 5, 9}) {
      CacheFormat format = CacheType::int3;
      format.rotated = rotated;
      RowCache rounded(kSequences, kHeads, kWidth, capacity, format);
      format.recent = 2;
      RowCache cache(kSequences, kHeads, kWidth, capacity, format);
      const auto row_at = [](Index t, Index b) {
        return normal_numbers(static_cast<std::uint32_t>(10 * t + b), kHeads * kWidth);
      };
      for (Index t = 0; t < 12; ++t) {
        for (Index b = 0; b < kSequences; ++b) {
          cache.write(b, t, row_at(t, b).data());
          rounded.write(b, t, row_at(t, b).data());
        }
        std::vector<Real> one(kWidth), other(kWidth);
        for (Index old = std::max<Index>(0, t + 1 - capacity); old <= t; ++old) {
          const Index slot = cache.slot(old);
          const ConstMatrix read = cache.read(1, 1, slot, 1, 0, kWidth, one.data());
          const std::vector<Real> exact = row_at(old, 1);
          const ConstMatrix coarse = rounded.read(1, 1, slot, 1, 0, kWidth, other.data());
          for (Index i = 0; i < kWidth; ++i)
            EXPECT_NEAR(read.data[i],
                        old > t - 2 ? exact[static_cast<std::size_t>(kWidth + i)] : coarse.data[i],
                        1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headcount
