#include "autograd/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace headcount {
namespace {

using Words = std::array<std::uint32_t, 4>;

// philox4x32 with 10 rounds, from kat_vectors of the Random123 distribution.
TEST(Random, GivesTheKnownAnswersOfPhilox) {
  EXPECT_EQ(random_words({0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(random_words({0xffffffffffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(random_words({0x299f31d0a4093822, 0x03707344, 0x13198a2e}, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, DependsOnEveryPartOfTheKey) {
  const std::set<Words> words = {
      random_words({1, 2, 3}, 4),         random_words({2, 2, 3}, 4),
      random_words({1, 3, 3}, 4),         random_words({1, 2, 4}, 4),
      random_words({1, 2, 3}, 5),         random_words({1ull + (1ull << 32), 2, 3}, 4),
      random_words({1, 2, 3}, 1ull << 32)};
  EXPECT_EQ(words.size(), 7u);
}

constexpr std::uint64_t kDraws = 100000;

// Mean of f(draw) over kDraws draws.
template <class Draw, class Function>
double mean(const Draw& draw, const Function& f) {
  double total = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) total += f(draw(i));
  return total / static_cast<double>(kDraws);
}

// Five standard errors of a mean of kDraws numbers with this standard deviation.
double five_errors(double deviation) {
  return 5 * deviation / std::sqrt(static_cast<double>(kDraws));
}

TEST(Random, UniformFillsTheUnitInterval) {
  const auto draw = [](std::uint64_t i) { return random_uniform({9, 1, 0}, i); };
  double least = 1, most = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    least = std::min(least, draw(i));
    most = std::max(most, draw(i));
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 1e-3);
  EXPECT_LT(most, 1);
  EXPECT_GT(most, 1 - 1e-3);
  EXPECT_NEAR(mean(draw, [](double x) { return x; }), 0.5, five_errors(std::sqrt(1.0 / 12)));
  EXPECT_NEAR(mean(draw, [](double x) { return x * x; }), 1.0 / 3,
              five_errors(std::sqrt(4.0 / 45)));
}

TEST(Random, BelowReachesEveryNumberEquallyOften) {
  std::array<int, 7> counts{};
  for (std::uint64_t i = 0; i < kDraws; ++i) ++counts.at(random_below({9, 2, 0}, i, 7));
  for (const int count : counts) {
    EXPECT_NEAR(count / static_cast<double>(kDraws), 1.0 / 7, five_errors(std::sqrt(6.0) / 7));
  }
  EXPECT_EQ(random_below({9, 2, 0}, 0, 1), 0u);
}

// Moments of the standard normal: 0, 1, 0, 3; their estimates have variances 1, 2, 15, 96.
TEST(Random, NormalHasTheMomentsOfTheStandardNormal) {
  const auto draw = [](std::uint64_t i) { return random_normal({9, 3, 0}, i); };
  EXPECT_NEAR(mean(draw, [](double x) { return x; }), 0, five_errors(1));
  EXPECT_NEAR(mean(draw, [](double x) { return x * x; }), 1, five_errors(std::sqrt(2)));
  EXPECT_NEAR(mean(draw, [](double x) { return x * x * x; }), 0, five_errors(std::sqrt(15)));
  EXPECT_NEAR(mean(draw, [](double x) { return x * x * x * x; }), 3, five_errors(std::sqrt(96)));
}

TEST(Random, NeighboursAreUncorrelated) {
  const auto product = [](std::uint64_t i) {
    return random_normal({9, 3, 0}, i) * random_normal({9, 3, 0}, i + 1);
  };
  EXPECT_NEAR(mean(product, [](double x) { return x; }), 0, five_errors(1));
}

// FNV-1a, 32 bits: the published hashes of "" and "a".
TEST(Random, StreamOfANameIsItsFnv1aHash) {
  EXPECT_EQ(random_stream(""), 0x811c9dc5u);
  EXPECT_EQ(random_stream("a"), 0xe40c292cu);
  EXPECT_EQ(random_stream("foobar"), 0xbf9cf968u);
}

}  // namespace
}  // namespace headcount
