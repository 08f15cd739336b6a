#include "data/texts/character_pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(CharacterPairLoss, IsThatOfSmoothedCounts) {
  // After 0 came 1 twice and 2 once, after 1 came 0 twice; 2 came last.
  const Tokens train = {0, 1, 0, 1, 0, 2};
  const double p0 = 4.0 / 9, p1 = 3.0 / 9, p2 = 2.0 / 9;
  const auto loss = [&](const Tokens& text) { return character_pair_loss(train, text, 3); };
  EXPECT_NEAR(loss({0, 1}), -std::log((2 + 2 * p1) / 5), 1e-12);
  EXPECT_NEAR(loss({0, 2}), -std::log((1 + 2 * p2) / 5), 1e-12);
  EXPECT_NEAR(loss({1, 2}), -std::log(p2 / 3), 1e-12) << "a pair that never came";
  EXPECT_NEAR(loss({2, 0}), -std::log(p0), 1e-12) << "a character after which nothing came";
  EXPECT_NEAR(loss({0, 1, 2}), (loss({0, 1}) + loss({1, 2})) / 2, 1e-12) << "a mean";
}

TEST(CharacterPairLoss, IsAProbabilityOfEveryNextCharacter) {
  const Tokens train = {0, 1, 0, 1, 0, 2, 3, 3, 1};
  for (std::int32_t before = 0; before < 5; ++before) {
    double sum = 0;
    for (std::int32_t next = 0; next < 5; ++next)
      sum += std::exp(-character_pair_loss(train, Tokens{before, next}, 5));
    EXPECT_NEAR(sum, 1, 1e-12) << before;
  }
}

}  // namespace
}  // namespace headcount
