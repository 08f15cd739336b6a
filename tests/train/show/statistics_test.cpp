#include "train/show/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headcount {
namespace {

// Two-sided 95 % points of Student's t as printed in statistical tables (NIST/SEMATECH e-Handbook,
// 1.3.6.7.2).
TEST(StudentT, HasThePointsOfThePublishedTables) {
  for (const auto& [freedom, point] :
       {std::pair{1, 12.706}, {2, 4.303}, {4, 2.776}, {9, 2.262}, {30, 2.042}, {100, 1.984}})
    EXPECT_NEAR(student_t(freedom, 0.05), point, 5e-4);
}

TEST(EstimateOfSeeds, IsTheMeanWithStudentsInterval) {
  const Estimate e = estimate(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(e.mean, 2);
  ASSERT_TRUE(e.half_width);
  EXPECT_NEAR(*e.half_width, 4.30265 / std::sqrt(3), 1e-4);
  const Estimate one = estimate(std::vector<double>{1.5});
  EXPECT_DOUBLE_EQ(one.mean, 1.5);
  EXPECT_FALSE(one.half_width);
  EXPECT_DOUBLE_EQ(*estimate(std::vector<double>{2, 2, 2, 2}).half_width, 0);
}

TEST(Median, IsTheMiddleValueOrTheUpperOfTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

}  // namespace
}  // namespace headcount
