#include "train/repeated_intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace headcount {
namespace {

TEST(RepeatedIntervals, OfOneLookAreStudents) {
  EXPECT_NEAR(RepeatedIntervals(5, 5).bound(5), student_t(4, 0.05), 1e-9);
  // However many of the values are there.
  const std::vector<double> values = {1, 2, 4};
  EXPECT_EQ(RepeatedIntervals(5, 5).estimate(values).half_width, estimate(values).half_width);
}

TEST(RepeatedIntervals, AreWiderThanStudentsAndNarrowerAtEveryLook) {
  const RepeatedIntervals looks(3, 20);
  EXPECT_EQ(looks.last(), 20);
  for (Index n = 3; n <= 20; ++n) {
    EXPECT_GT(looks.bound(n), student_t(n - 1, 0.05)) << n;
    EXPECT_LT(looks.bound(n), n == 3 ? 7.2 : looks.bound(n - 1)) << n;
  }
}

TEST(RepeatedIntervals, SpendAtTheFirstLookWhatTheFamilySays) {
  EXPECT_NEAR(RepeatedIntervals(5, 20).bound(5), student_t(4, 0.05 / 2), 1e-9);
}

// Student's t of two values x and y is (x + y) / |x - y|. The direction of three normal values is
// uniform on a sphere, so that its height there is uniform too (Archimedes). The error spent at the
// second look is thus an area of the sphere, here counted point by point.
TEST(RepeatedIntervals, SpendAtTheSecondLookWhatIsLeftOfIt) {
  const RepeatedIntervals looks(2, 3);
  const double first = looks.bound(2), second = looks.bound(3);
  constexpr int kHeights = 200, kTurns = 10'000;
  double failed = 0;
  for (int i = 0; i < kHeights; ++i) {
    for (int j = 0; j < kTurns; ++j) {
      const double z = 2 * (i + 0.5) / kHeights - 1,
                   turn = 2 * std::numbers::pi * (j + 0.5) / kTurns;
      const std::vector<double> x = {std::sqrt(1 - z * z) * std::cos(turn),
                                     std::sqrt(1 - z * z) * std::sin(turn), z};
      const auto t = [&](std::size_t n) {
        const std::span<const double> values = std::span(x).first(n);
        const Estimate one = estimate(values, 1.0);  // one standard error
        return std::abs(one.mean) / *one.half_width;
      };
      failed += t(2) > first || t(3) > second;
    }
  }
  EXPECT_NEAR(failed / kHeights / kTurns, 0.05, 2e-4);
}

TEST(RepeatedIntervals, HaveNoneBetweenLooks) {
  const RepeatedIntervals looks(3, 4);
  EXPECT_FALSE(looks.estimate(std::vector<double>{1, 2}).half_width);
  EXPECT_TRUE(looks.estimate(std::vector<double>{1, 2, 3}).half_width);
  EXPECT_FALSE(looks.estimate(std::vector<double>{1, 2, 3, 4, 5}).half_width);
}

}  // namespace
}  // namespace headcount
