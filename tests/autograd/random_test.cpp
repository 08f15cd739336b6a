#include "autograd/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <tuple>

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

constexpr std::uint64_t kDraws = 100000;

// Expects the mean of f(draw) over kDraws draws within five standard errors, for numbers f(draw) of
// that variance.
template <class Function>
void expect_mean(double expected, double variance, const Function& f) {
  double total = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) total += f(i);
  const auto count = static_cast<double>(kDraws);
  EXPECT_NEAR(total / count, expected, 5 * std::sqrt(variance / count));
}

TEST(Random, UniformFillsTheUnitInterval) {
  const auto draw = [](std::uint64_t i) { return random_uniform({9, 1, 0}, i); };
  for (std::uint64_t i = 0; i < kDraws; ++i) ASSERT_TRUE(draw(i) >= 0 && draw(i) < 1);
  expect_mean(0.5, 1.0 / 12, draw);
  expect_mean(1.0 / 3, 4.0 / 45, [&](std::uint64_t i) { return std::pow(draw(i), 2); });
}

TEST(Random, BelowReachesEveryNumberEquallyOften) {
  for (std::uint64_t number = 0; number < 7; ++number)
    expect_mean(1.0 / 7, 6.0 / 49, [=](std::uint64_t i) {
      return random_below({9, 2, 0}, i, 7) == number ? 1.0 : 0.0;
    });
  EXPECT_EQ(random_below({9, 2, 0}, 0, 1), 0u);
}

TEST(Random, NormalHasTheMomentsOfTheStandardNormalAndUncorrelatedNeighbours) {
  const auto draw = [](std::uint64_t i) { return random_normal({9, 3, 0}, i); };
  for (const auto& [power, moment, variance] :
       {std::tuple(1, 0, 1), {2, 1, 2}, {3, 0, 15}, {4, 3, 96}})
    expect_mean(moment, variance, [&, n = power](std::uint64_t i) { return std::pow(draw(i), n); });
  expect_mean(0, 1, [&](std::uint64_t i) { return draw(i) * draw(i + 1); });
}

// FNV-1a, 32 bits: the published hashes of "" and "a".
TEST(Random, StreamOfANameIsItsFnv1aHash) {
  EXPECT_EQ(random_stream(""), 0x811c9dc5u);
  EXPECT_EQ(random_stream("a"), 0xe40c292cu);
  EXPECT_EQ(random_stream("foobar"), 0xbf9cf968u);
}

}  // namespace
}  // namespace headcount
