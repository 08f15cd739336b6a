// label: slow
// How often verdicts are wrong, in simulated comparisons whose true cost is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "train/compare/verdict.h"

namespace headcount {
namespace {

// 10,000 comparisons of known cost, with differences between seeds that are normal with deviation
// 1; the tolerance is 2.
struct Rates {
  double enough = 0, not_enough = 0, seeds = 0;  ///< the last is a mean
};

constexpr double kTolerance = 2;

Rates simulated(double cost, const SeedRange& range) {
  constexpr int kComparisons = 10'000;
  const Judge judge(Metric::loss, range);
  Rates rates;
  for (std::uint32_t i = 0; i < kComparisons; ++i) {
    std::vector<double> noise(static_cast<std::size_t>(range.last));
    random_normals({2024, random_stream("simulated comparisons"), i}, 0, noise);
    std::vector<std::optional<double>> costs;
    for (const double error : noise) costs.push_back(cost + error);
    const Decision decision = decide(costs, kTolerance, judge);
    rates.enough += decision.verdict == Verdict::enough;
    rates.not_enough += decision.verdict == Verdict::not_enough;
    rates.seeds += static_cast<double>(decision.seeds);
  }
  for (double* rate : {&rates.enough, &rates.not_enough, &rates.seeds}) *rate /= kComparisons;
  return rates;
}

const std::vector<SeedRange> kRanges = {{3, 3}, {3, 4}, {3, 20}, {2, 10}, {10, 30}};

// Upper bounds on rates in 10,000 trials: an event of probability 5 % (or half of it) exceeds its
// bound once in a thousand times.
constexpr double kFivePercent = 0.05 + 3.1 * 0.0022, kHalfOfIt = 0.025 + 3.1 * 0.0016;

TEST(VerdictsOfSimulatedComparisons, AreWrongInFewerThanFivePercentHoweverManyLooks) {
  for (const SeedRange& range : kRanges) {
    for (const double below : {0.0, 1.0, 1.8})
      EXPECT_LT(simulated(below, range).not_enough, kHalfOfIt) << below << ", " << range.text();
    for (const double above : {2.2, 3.0})
      EXPECT_LT(simulated(above, range).enough, kHalfOfIt) << above << ", " << range.text();
  }
}

// Where it cannot be told, either verdict claims too much.
TEST(VerdictsOfSimulatedComparisons, AtTheToleranceAreFivePercentAndNotFewer) {
  for (const SeedRange& range : kRanges) {
    const Rates rates = simulated(kTolerance, range);
    EXPECT_LT(rates.enough + rates.not_enough, kFivePercent) << range.text();
    EXPECT_GT(rates.enough + rates.not_enough, 0.04) << range.text();
    EXPECT_LT(rates.enough, kHalfOfIt) << range.text();
    EXPECT_LT(rates.not_enough, kHalfOfIt) << range.text();
  }
}

// What the method is for: the same simulation finds the fault of Student's interval at each look.
TEST(VerdictsOfSimulatedComparisons, WithStudentsIntervalsAreWrongFarMoreOften) {
  constexpr int kComparisons = 10'000;
  std::vector<double> errors(21);
  for (Index n = 3; n <= 20; ++n) errors[static_cast<std::size_t>(n)] = student_t(n - 1, 0.05);
  int decided = 0;
  for (std::uint32_t i = 0; i < kComparisons; ++i) {
    std::vector<double> costs(20);
    random_normals({2024, random_stream("simulated comparisons"), i}, 0, costs);
    for (std::size_t n = 3; n <= 20; ++n) {
      const Estimate look = estimate(std::span(costs).first(n), errors[n]);
      if (verdict(look, 0.0) == Verdict::open) continue;
      ++decided;
      break;
    }
  }
  EXPECT_NEAR(decided, 0.22 * kComparisons, 0.02 * kComparisons);
}

TEST(VerdictsOfSimulatedComparisons, TakeFewSeedsWhereTheDifferenceIsClear) {
  EXPECT_LT(simulated(-6, {3, 20}).seeds, 5);  // eight deviations below the tolerance
  EXPECT_LT(simulated(0, {3, 20}).seeds, 8);   // two
  EXPECT_GT(simulated(0, {3, 20}).enough, 0.99);
  EXPECT_GT(simulated(1, {3, 20}).enough, 0.96);  // one
  EXPECT_GT(simulated(3, {3, 20}).not_enough, 0.96);
}

// Points lost by one seed, by how many of all seeds lose less: distributions that right answers
// have.
struct Scatter {
  const char* name;
  double (*points)(double share);
};
const std::vector<Scatter> kScatters = {
    {"uniform", [](double share) { return 10 * share; }},
    {"skewed", [](double share) { return std::min(100.0, -6 * std::log1p(-share)); }},
    {"two clusters", [](double share) { return share < 0.5 ? share : 70 + share; }},
    // One seed of twelve does not learn it at all.
    {"rare failures", [](double share) { return share < 11.0 / 12 ? share : 74 + share; }}};

struct Wrong {
  double enough = 0, not_enough = 0;
};

// How often each verdict is reached by counting where that share of all seeds lies below the
// tolerance.
Wrong counted(const Scatter& scatter, double below, const SeedRange& range) {
  constexpr int kComparisons = 10'000;
  const Judge judge(Metric::answers, range);
  Wrong wrong;
  for (std::uint32_t i = 0; i < kComparisons; ++i) {
    std::vector<double> noise(static_cast<std::size_t>(range.last));
    random_normals({2024, random_stream("simulated answers"), i}, 0, noise);
    std::vector<std::optional<double>> costs;
    for (const double z : noise)
      costs.push_back(scatter.points(std::erfc(-z / std::sqrt(2.0)) / 2));
    const Verdict verdict = decide(costs, scatter.points(below), judge).verdict;
    wrong.enough += verdict == Verdict::enough;
    wrong.not_enough += verdict == Verdict::not_enough;
  }
  return {wrong.enough / kComparisons, wrong.not_enough / kComparisons};
}

TEST(VerdictsOfSimulatedAnswers, AreWrongInFewerThanFivePercentHoweverSeedsScatter) {
  for (const Scatter& scatter : kScatters) {
    for (const SeedRange& range : std::vector<SeedRange>{{5, 5}, {8, 8}, {3, 10}, {5, 20}}) {
      const std::string what = std::string(scatter.name) + ", " + range.text();
      // Just fewer than half lose less than the tolerance, then just fewer than half lose more.
      EXPECT_LT(counted(scatter, 0.49, range).enough, 0.05) << what;
      EXPECT_LT(counted(scatter, 0.51, range).not_enough, 0.05) << what;
    }
  }
}

TEST(VerdictsOfSimulatedAnswers, AreReachedWhereMostSeedsAgree) {
  for (const Scatter& scatter : kScatters) {
    EXPECT_GT(counted(scatter, 0.95, {5, 10}).enough, 0.9) << scatter.name;
    EXPECT_GT(counted(scatter, 0.05, {5, 10}).not_enough, 0.9) << scatter.name;
  }
}

// What counting is for: of seeds that fail rarely, the mean lies far outside Student's intervals,
// at every one of few looks.
TEST(VerdictsOfSimulatedAnswers, ByStudentsIntervalsOfMeansAreMostlyWrong) {
  constexpr int kComparisons = 10'000, kSeeds = 5;
  const Scatter& rare = kScatters[3];
  const double mean = 11.0 / 12 * 11.0 / 24 + 1.0 / 12 * (74 + 23.0 / 24);
  int outside = 0;
  for (std::uint32_t i = 0; i < kComparisons; ++i) {
    std::vector<double> costs(kSeeds);
    random_normals({2024, random_stream("simulated answers"), i}, 0, costs);
    for (double& cost : costs) cost = rare.points(std::erfc(-cost / std::sqrt(2.0)) / 2);
    const Estimate look = estimate(costs);
    outside += std::abs(look.mean - mean) > *look.half_width;
  }
  EXPECT_GT(outside, 0.6 * kComparisons);
}

}  // namespace
}  // namespace headcount
