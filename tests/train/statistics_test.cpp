#include "train/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headcount {
namespace {

// Two-sided 95 % points of Student's t as printed in statistical tables (NIST/SEMATECH e-Handbook,
// 1.3.6.7.2).
TEST(StudentT, HasThePointsOfThePublishedTables) {
  EXPECT_NEAR(student_t(1, 0.05), 12.706, 5e-4);
  EXPECT_NEAR(student_t(2, 0.05), 4.303, 5e-4);
  EXPECT_NEAR(student_t(4, 0.05), 2.776, 5e-4);
  EXPECT_NEAR(student_t(9, 0.05), 2.262, 5e-4);
  EXPECT_NEAR(student_t(30, 0.05), 2.042, 5e-4);
  EXPECT_NEAR(student_t(100, 0.05), 1.984, 5e-4);
}

TEST(EstimateOfSeeds, IsTheMeanWithStudentsInterval) {
  const Estimate e = estimate(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(e.mean, 2);
  ASSERT_TRUE(e.half_width);
  EXPECT_NEAR(*e.half_width, 4.30265 / std::sqrt(3), 1e-4);
}

TEST(EstimateOfSeeds, HasNoIntervalForOneValue) {
  const Estimate e = estimate(std::vector<double>{1.5});
  EXPECT_DOUBLE_EQ(e.mean, 1.5);
  EXPECT_FALSE(e.half_width);
}

TEST(EstimateOfSeeds, OfEqualValuesHasAnIntervalOfNoWidth) {
  EXPECT_DOUBLE_EQ(*estimate(std::vector<double>{2, 2, 2, 2}).half_width, 0);
}

TEST(EstimateOfSeeds, ExcludesZeroWhereTheIntervalEndsBeforeIt) {
  EXPECT_EQ(excludes_zero({0.3, 0.2}), true);
  EXPECT_EQ(excludes_zero({-0.3, 0.2}), true);
  EXPECT_EQ(excludes_zero({-0.2, 0.2}), false);
  EXPECT_EQ(excludes_zero({0.3, std::nullopt}), std::nullopt);
  EXPECT_EQ(excludes_zero({0.3, HUGE_VAL}), std::nullopt);
}

TEST(Median, IsTheMiddleValueOrTheUpperOfTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

}  // namespace
}  // namespace headcount
