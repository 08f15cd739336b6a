#include "train/compare/sequential_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "train/compare/verdict.h"
#include "train/show/statistics.h"

namespace headcount {
namespace {

TEST(Verdict, SaysOnWhichSideOfTheToleranceTheWholeIntervalLies) {
  EXPECT_EQ(verdict({0.003, 0.004}, 0.010), Verdict::enough);
  EXPECT_EQ(verdict({0.052, 0.006}, 0.010), Verdict::not_enough);
  EXPECT_EQ(verdict({0.008, 0.004}, 0.010), Verdict::open);
  EXPECT_EQ(verdict({-0.5, 0.1}, 0.010), Verdict::enough);
  EXPECT_EQ(verdict({0.5, std::nullopt}, 0.010), Verdict::open);
  EXPECT_EQ(verdict({0.5, 0.1}, std::nullopt), Verdict::open);
  EXPECT_EQ(verdict({0.25, 0.25}, 0.5), Verdict::open) << "ends at the tolerance";
  EXPECT_EQ(verdict({0.75, 0.25}, 0.5), Verdict::open) << "begins at the tolerance";
}

TEST(Judge, CountsRunsThatDivergedAsLost) {
  const Judge answers(Metric::answers, {5, 10}), losses(Metric::loss, {3, 3});
  std::vector<double> costs(5, 0.0);
  EXPECT_EQ(answers.verdict(costs, 5), Verdict::enough);
  std::fill_n(costs.begin(), 5, kDivergedCost);
  EXPECT_EQ(answers.verdict(costs, 5), Verdict::not_enough);
  EXPECT_EQ(losses.verdict(std::array{0.1, 0.1, kDivergedCost}, 1), Verdict::open);
}

TEST(RepeatedIntervals, LieBetweenStudentsAndTheFirstLooksShareOfTheError) {
  EXPECT_NEAR(repeated_interval_bounds(5, 5).at(0), student_t(4, 0.05), 1e-9) << "one look";
  EXPECT_NEAR(repeated_interval_bounds(5, 20).at(0), student_t(4, 0.05 / 64), 1e-9);
  EXPECT_LT(repeated_interval_bounds(5, 10).back(), 1.13 * student_t(9, 0.05));
  const std::vector<double> bounds = repeated_interval_bounds(3, 20);
  ASSERT_EQ(bounds.size(), 18u);
  for (std::size_t look = 0; look < bounds.size(); ++look) {
    EXPECT_GT(bounds[look], student_t(static_cast<Index>(look) + 2, 0.05)) << look;
    EXPECT_LT(bounds[look], look == 0 ? 77 : bounds[look - 1]) << look;
  }
}

// Student's t of two values x and y is (x + y) / |x - y|. The direction of three normal values is
// uniform on a sphere, so that its height there is uniform too (Archimedes). The error spent at the
// second look is thus an area of the sphere, here counted point by point.
TEST(RepeatedIntervals, SpendAtTheSecondLookWhatIsLeftOfIt) {
  const std::vector<double> bounds = repeated_interval_bounds(2, 3);
  constexpr int kHeights = 200, kTurns = 10'000;
  double failed = 0;
  for (int i = 0; i < kHeights; ++i) {
    const double z = 2 * (i + 0.5) / kHeights - 1, radius = std::sqrt(1 - z * z);
    for (int j = 0; j < kTurns; ++j) {
      const double turn = 2 * std::numbers::pi * (j + 0.5) / kTurns;
      const std::array x = {radius * std::cos(turn), radius * std::sin(turn), z};
      const auto t = [&](std::size_t n) {
        const Estimate one = estimate(std::span(x).first(n), 1.0);  // one standard error
        return std::abs(one.mean) / *one.half_width;
      };
      failed += t(2) > bounds[0] || t(3) > bounds[1];
    }
  }
  EXPECT_NEAR(failed / kHeights / kTurns, 0.05, 2e-4);
}

TEST(SignTest, OfAFixedNumberAllowsWhatCoinsDoInOneOfTwentyCases) {
  const auto allowed = [](Index values) { return sign_test_exceptions(values, values).at(0); };
  for (const Index few : {1, 2, 3, 4}) EXPECT_EQ(allowed(few), -1) << few;
  EXPECT_EQ(allowed(5), 0);   // 1/32
  EXPECT_EQ(allowed(7), 0);   // with one exception 8/128
  EXPECT_EQ(allowed(8), 1);   // 9/256
  EXPECT_EQ(allowed(10), 1);  // with two 56/1024
  EXPECT_EQ(allowed(11), 2);  // 67/2048
  EXPECT_EQ(allowed(20), 5);
  EXPECT_EQ(sign_test_exceptions(5, 10).at(0), 0) << "few values decide where all agree";
}

TEST(SignTest, IsPassedByCoinsInAtMostOneOfTwentyCasesHoweverManyLooks) {
  for (const auto& [first, last] : {std::pair<Index, Index>{5, 5}, {3, 10}, {5, 10}, {3, 16}}) {
    const std::vector<Index> allowed = sign_test_exceptions(first, last);
    // All ways that coins can fall; they pass at any look.
    const Index ways = Index{1} << last;
    Index passed = 0;
    for (Index coins = 0; coins < ways; ++coins) {
      bool passes = false;
      for (Index n = first; n <= last; ++n) {
        const auto tossed = static_cast<std::uint64_t>(coins % (Index{1} << n));
        passes = passes || std::popcount(tossed) <= allowed[static_cast<std::size_t>(n - first)];
      }
      passed += passes;
    }
    const double chance = static_cast<double>(passed) / static_cast<double>(ways);
    EXPECT_LE(chance, 0.05) << first << " to " << last;
    EXPECT_GT(chance, 0.025) << first << " to " << last << ": more than it need be";
  }
}

}  // namespace
}  // namespace headcount
