// label: slow
// How often verdicts about losses are wrong, in simulated comparisons whose true cost is known.
// Verdicts about answers are exact: SignTest counts all ways that coins can fall.
#include <gtest/gtest.h>

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
    const RandomKey key = {2024, random_stream("simulated comparisons"), i};
    std::vector<double> costs;
    Verdict verdict = Verdict::open;
    while (verdict == Verdict::open && std::ssize(costs) < range.last) {
      costs.push_back(cost + random_normal(key, costs.size()));
      if (std::ssize(costs) >= range.first) verdict = judge.verdict(costs, kTolerance);
    }
    rates.enough += verdict == Verdict::enough;
    rates.not_enough += verdict == Verdict::not_enough;
    rates.seeds += static_cast<double>(costs.size());
  }
  for (double* rate : {&rates.enough, &rates.not_enough, &rates.seeds}) *rate /= kComparisons;
  return rates;
}

// Upper bounds on rates in 10,000 trials: an event of probability 5 % (or half of it) exceeds its
// bound once in a thousand times.
constexpr double kFivePercent = 0.05 + 3.1 * 0.0022, kHalfOfIt = 0.025 + 3.1 * 0.0016;

TEST(VerdictsOfSimulatedComparisons, AreWrongInFewerThanFivePercentHoweverManyLooks) {
  for (const SeedRange& range : {SeedRange{3, 3}, {3, 4}, {3, 20}, {2, 10}, {10, 30}}) {
    for (const double cost : {0.0, 1.0, 1.8, kTolerance, 2.2, 3.0}) {
      const Rates rates = simulated(cost, range);
      SCOPED_TRACE(range.text() + " seeds, a cost of " + std::to_string(cost));
      EXPECT_LT(cost <= kTolerance ? rates.not_enough : rates.enough, kHalfOfIt);
      if (cost != kTolerance) continue;
      // Where it cannot be told, either verdict claims too much.
      EXPECT_LT(rates.enough, kHalfOfIt);
      EXPECT_LT(rates.enough + rates.not_enough, kFivePercent);
      EXPECT_GT(rates.enough + rates.not_enough, 0.04) << "fewer than need be";
    }
  }
}

TEST(VerdictsOfSimulatedComparisons, TakeFewSeedsWhereTheDifferenceIsClear) {
  EXPECT_LT(simulated(-6, {3, 20}).seeds, 5);  // eight deviations below the tolerance
  EXPECT_LT(simulated(0, {3, 20}).seeds, 8);   // two
  EXPECT_GT(simulated(0, {3, 20}).enough, 0.99);
  EXPECT_GT(simulated(1, {3, 20}).enough, 0.96);  // one
  EXPECT_GT(simulated(3, {3, 20}).not_enough, 0.96);
}

}  // namespace
}  // namespace headcount
