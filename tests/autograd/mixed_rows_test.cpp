// Rows that are sums of other rows: what attention makes of two caches is what it makes of the
// sums.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/evaluation.h"
#include "autograd/ops.h"

namespace headcount {
namespace {

constexpr double kMixingTolerance = sizeof(Real) == 8 ? 1e-12 : 2e-5;
constexpr Index kSequences = 2, kHeads = 6, kTerms = 3, kWidth = 8;

// Standard normal, the same for the same name.
RowCache filled(const std::string& name, Index heads, Index width, Index capacity, CacheType type,
                Index tokens) {
  RowCache cache(kSequences, heads, width, capacity, type);
  const std::vector<Real> rows = normal_values(name, 0, kSequences * tokens * heads * width);
  for (Index i = 0; i < kSequences * tokens; ++i)
    cache.write(i / tokens, i % tokens, rows.data() + i * heads * width);
  return cache;
}

// A cache of rows and one of what mixes them.
struct RowFactors {
  Index tokens;
  RowCache weights, rows;

  RowFactors(const std::string& name, Index capacity, CacheType type, Index count)
      : tokens(count),
        weights(filled(std::string(name) + "weights", 1, kHeads * kTerms, capacity, type, count)),
        rows(filled(std::string(name) + "rows", kTerms, kWidth, capacity, type, count)) {}

  Rows mixed() const { return Rows(rows, tokens).mixed_by(Rows(weights, tokens)); }
  // The sums themselves.
  Var product(Tape& tape) const {
    const Var x = read_rows(tape, Rows(rows, tokens));
    return Rows(x).mixed_by(read_rows(tape, Rows(weights, tokens))).x();
  }
};

double difference(Var a, Var b) {
  EXPECT_EQ(a.shape(), b.shape());
  double most = 0;
  for (std::size_t i = 0; i < a.value().size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.value()[i] - b.value()[i])));
  return most;
}

// More keys than one task takes; a cache that began again from its first slot.
constexpr std::pair<Index, Index> kCapacityAndTokens[] = {{5, 5}, {1200, 1100}, {700, 1100}};

TEST(MixedRows, AreReadAsTheSumsThatTheyAre) {
  for (const auto& [capacity, tokens] : kCapacityAndTokens) {
    for (const CacheType type :
         {CacheType::real, CacheType::bf16, CacheType::f16, CacheType::int8}) {
      const RowFactors factors("k", capacity, type, tokens);
      Tape tape;
      const Var read = read_rows(tape, factors.mixed());
      EXPECT_EQ(read.shape(), (Shape{kSequences, std::min(capacity, tokens), kHeads, kWidth}));
      EXPECT_LT(difference(read, factors.product(tape)), kMixingTolerance);
    }
  }
}

TEST(MixedRows, GiveTheNewestTokenWhatTheirSumsWould) {
  for (const auto& [capacity, tokens] : kCapacityAndTokens) {
    for (const CacheType type :
         {CacheType::real, CacheType::bf16, CacheType::f16, CacheType::int8}) {
      const RowFactors k("k", capacity, type, tokens), v("v", capacity, type, tokens);
      const RowCache shared = filled("shared", 2, kWidth, capacity, type, tokens);
      const AttentionOptions options{.scale = Real{0.3}};
      Tape tape;
      const auto query = [&](Index width) {
        const Shape shape = {kSequences, 1, kHeads, width};
        return tape.constant(shape, normal_values("q", 0, shape.size()));
      };
      const Rows plain(shared, tokens), summed(k.product(tape)), sums(v.product(tape));
      const Var expected = attention(query(kWidth), summed, sums, options);
      EXPECT_LT(difference(attention(query(kWidth), k.mixed(), v.mixed(), options), expected),
                kMixingTolerance);
      // Beside rows that are not mixed, on either side of them.
      const Rows read(read_rows(tape, plain));
      for (const bool first : {true, false}) {
        std::vector<Rows> parts = {k.mixed(), plain}, expected_parts = {summed, read};
        if (!first) std::swap(parts[0], parts[1]), std::swap(expected_parts[0], expected_parts[1]);
        EXPECT_LT(difference(attention(query(2 * kWidth), parts, plain, options),
                             attention(query(2 * kWidth), expected_parts, read, options)),
                  kMixingTolerance);
      }
    }
  }
}

TEST(MixedRows, AreNotComputedForTheNewestToken) {
  constexpr Index kTokens = 4096;
  const RowFactors k("k", kTokens, CacheType::real, kTokens),
      v("v", kTokens, CacheType::real, kTokens);
  Tape tape;
  const Shape shape = {kSequences, 1, kHeads, kWidth};
  attention(tape.constant(shape, normal_values("q", 0, shape.size())), k.mixed(), v.mixed(), {});
  constexpr auto kSums = static_cast<std::size_t>(kSequences * kTokens * kHeads * kWidth);
  EXPECT_LT(tape.memory_capacity(), kSums * sizeof(Real) / 2);
}

TEST(MixedRows, GiveSeveralTokensWhatTheirSumsWould) {
  const RowFactors k("k", 90, CacheType::f16, 80), v("v", 90, CacheType::f16, 80);
  Tape tape;
  const Shape shape = {kSequences, 70, kHeads, kWidth};
  const Var q = tape.constant(shape, normal_values("q", 0, shape.size()));
  EXPECT_LT(difference(attention(q, k.mixed(), v.mixed(), {}),
                       attention(q, k.product(tape), v.product(tape), {})),
            kMixingTolerance);
}

TEST(MixedRows, ThatDoNotFitTogetherAreRefused) {
  const RowCache rows = filled("rows", kTerms, kWidth, 9, CacheType::real, 9);
  const auto mix = [&](const RowCache& weights, Index tokens) {
    return Rows(rows, 9).mixed_by(Rows(weights, tokens));
  };
  const RowCache fitting = filled("w", 1, kHeads * kTerms, 9, CacheType::real, 9);
  EXPECT_NO_THROW(mix(fitting, 9));
  EXPECT_THROW(mix(fitting, 8), ShapeError);
  EXPECT_THROW(mix(filled("w", 1, kTerms + 1, 9, CacheType::real, 9), 9), ShapeError);
  EXPECT_THROW(mix(filled("w", 2, kHeads * kTerms, 9, CacheType::real, 9), 9), ShapeError);
  EXPECT_THROW(mix(filled("w", 1, kHeads * kTerms, 10, CacheType::real, 9), 9), ShapeError);
  Tape tape;
  const Var weights = read_rows(tape, Rows(fitting, 9));
  EXPECT_THROW(Rows(rows, 9).mixed_by(weights), ShapeError);
  const Var q = tape.constant({kSequences, 1, 2 * kHeads, kWidth},
                              normal_values("q", 0, kSequences * 2 * kHeads * kWidth));
  EXPECT_THROW(attention(q, mix(fitting, 9), mix(fitting, 9), {}), ShapeError);
}

}  // namespace
}  // namespace headcount
