#include "train/sign_test.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headcount {
namespace {

TEST(SignTest, OfAFixedNumberAllowsWhatCoinsDoInOneOfTwentyCases) {
  const auto allowed = [](Index values) { return SignTest(values, values).exceptions(values); };
  for (const Index few : {1, 2, 3, 4}) EXPECT_EQ(allowed(few), -1) << few;
  EXPECT_EQ(allowed(5), 0);   // 1/32
  EXPECT_EQ(allowed(7), 0);   // with one exception 8/128
  EXPECT_EQ(allowed(8), 1);   // 9/256
  EXPECT_EQ(allowed(10), 1);  // with two 56/1024
  EXPECT_EQ(allowed(11), 2);  // 67/2048
  EXPECT_EQ(allowed(20), 5);
}

// The chance that coins pass any of its looks, over all 2^last ways that they can fall.
double chance_of_coins(const SignTest& looks) {
  const Index last = looks.last();
  Index passed = 0;
  for (Index coins = 0; coins < Index{1} << last; ++coins) {
    Index exceptions = 0;
    for (Index n = 1; n <= last; ++n) {
      exceptions += coins >> (n - 1) & 1;
      if (n < looks.first() || exceptions > looks.exceptions(n)) continue;
      ++passed;
      break;
    }
  }
  return std::ldexp(static_cast<double>(passed), -static_cast<int>(last));
}

TEST(SignTest, IsPassedByCoinsInAtMostOneOfTwentyCasesHoweverManyLooks) {
  for (const auto& [first, last] : {std::pair<Index, Index>{5, 5}, {3, 10}, {5, 10}, {3, 16}}) {
    const double chance = chance_of_coins({first, last});
    EXPECT_LE(chance, 0.05) << first << " to " << last;
    EXPECT_GT(chance, 0.025) << first << " to " << last << ": more than it need be";
  }
}

TEST(SignTest, TakesFewValuesWhereAllAgree) {
  EXPECT_EQ(SignTest(5, 10).exceptions(5), 0);
  EXPECT_EQ(SignTest(3, 20).exceptions(5), -1);
  EXPECT_EQ(SignTest(3, 20).exceptions(6), 0);
}

}  // namespace
}  // namespace headcount
