#include "autograd/cache/row_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <string>
#include <tuple>

#include "autograd/cache/stored_rows.h"
#include "support/message_of.h"

namespace headcount {
namespace {

constexpr Index kRowWidth = 6;
constexpr Real kTiny = std::numeric_limits<Real>::denorm_min();

TEST(RowCache, ReadsZerosAsZerosAndKeepsRealNumbersAsTheyAre) {
  const Values zeros(kRowWidth, 0), numbers = normal_values(6, kRowWidth, 100);
  for (const CacheTypeRow& type : cache_types()) {
    for (const CacheLevels levels : {CacheLevels::uniform, CacheLevels::normal}) {
      CacheFormat format = type.type;
      format.levels = levels;
      EXPECT_EQ(stored(format, zeros), zeros) << type.name;
    }
    EXPECT_EQ(stored(type.type, numbers) == numbers, type.type == CacheType::real) << type.name;
  }
  const Values too_small_for_a_step(kRowWidth, kTiny);
  EXPECT_EQ(stored(CacheType::int8, too_small_for_a_step), zeros);
}

// A type with a scale marks the whole group, others the number.
TEST(RowCache, ReadsARowThatIsNotFiniteAsNotFinite) {
  for (const CacheTypeRow& type : cache_types()) {
    for (const Real wrong :
         {std::numeric_limits<Real>::quiet_NaN(), -std::numeric_limits<Real>::infinity()}) {
      Values row(kRowWidth, Real{1});
      row[1] = wrong;
      const Values read = stored(type.type, row);
      EXPECT_FALSE(std::isfinite(read[1])) << type.name;
      for (std::size_t i = 0; i < kRowWidth && type.scale_bytes > 0; ++i)
        EXPECT_TRUE(std::isnan(read[i])) << type.name << i;
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
    Values rows(2 * kRowWidth, -held);
    EXPECT_NO_THROW(cache.write(0, 0, rows.data())) << name;
    rows[kRowWidth + 1] = -beyond;
    EXPECT_TRUE(message_of<NonFiniteError>([&] {
                  cache.write(0, 0, rows.data());
                }).starts_with("the " + std::string(name) + " KV cache"));
  }
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
      cache.write(0, t, normal_values(static_cast<std::uint32_t>(t), heads * width).data());
    Values scratch(static_cast<std::size_t>(width));
    for (Index t = tokens - capacity; t < tokens; ++t) {
      const Values rows = normal_values(static_cast<std::uint32_t>(t), heads * width);
      for (Index i = 0; i < heads * width; i += format.group) {
        const auto group = Values(rows.begin() + i, rows.begin() + i + format.group);
        const ConstMatrix read =
            cache.read(0, i / width, cache.slot(t), 1, i % width, format.group, scratch.data());
        RC_ASSERT(
            std::ranges::equal(stored(format.type, group), std::span(read.data, group.size())));
      }
    }
  }));
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
        return normal_values(static_cast<std::uint32_t>(10 * t + b), kHeads * kWidth);
      };
      for (Index t = 0; t < 12; ++t) {
        for (Index b = 0; b < kSequences; ++b) {
          cache.write(b, t, row_at(t, b).data());
          rounded.write(b, t, row_at(t, b).data());
        }
        Values one(kWidth), other(kWidth);
        for (Index old = std::max<Index>(0, t + 1 - capacity); old <= t; ++old) {
          const Index slot = cache.slot(old);
          const ConstMatrix read = cache.read(1, 1, slot, 1, 0, kWidth, one.data());
          const Values exact = row_at(old, 1);
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
