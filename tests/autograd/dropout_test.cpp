#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "support/numbers.h"

namespace headcount {
namespace {

constexpr Index kDropped = 100000;

class DropoutOp : public testing::Test {
 protected:
  DropoutOp() { tape.set_training(true); }
  Var ones() { return tape.leaf({kDropped}, Values(kDropped, 1)); }
  // Dropout of ones: the multipliers themselves.
  Values multipliers(Real probability) { return copy(dropout(ones(), probability).value()); }
  Tape tape;
};

TEST_F(DropoutOp, PassesEverythingThroughInEvaluation) {
  tape.set_training(false);
  const Var x = ones();
  EXPECT_EQ(dropout(x, Real{0.5}).index, x.index) << "not even a copy";
  tape.set_training(true);
  EXPECT_EQ(dropout(x, 0).index, x.index);
}

TEST_F(DropoutOp, DropsAsOftenAsAskedAndScalesTheRest) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const double rounded = std::round(p * 65536) / 65536;
    Index dropped = 0;
    for (const Real m : multipliers(static_cast<Real>(p))) {
      if (m == 0) {
        ++dropped;
      } else {
        EXPECT_NEAR(static_cast<double>(m), 1 / (1 - rounded), 1e-5);
      }
    }
    // Five standard deviations of a binomial frequency.
    const double frequency = static_cast<double>(dropped) / kDropped;
    EXPECT_NEAR(frequency, p, 5 * std::sqrt(p * (1 - p) / kDropped)) << p;
  }
}

TEST_F(DropoutOp, DropsNeighboursIndependently) {
  const Values m = multipliers(Real{0.5});
  for (const std::size_t distance : {1u, 2u, 4u, 8u, 16u}) {
    Index both = 0;
    for (std::size_t i = 0; i + distance < m.size(); ++i) both += m[i] == 0 && m[i + distance] == 0;
    // Overlapping pairs: the variance is p^2 (1 + 2 p - 3 p^2) / n, here 5/16 / n.
    EXPECT_NEAR(static_cast<double>(both) / kDropped, 0.25, 5 * std::sqrt(0.3125 / kDropped))
        << distance;
  }
}

TEST_F(DropoutOp, DrawsAnewForEachOpStepAndSeedAndTheSameForTheSame) {
  const auto at = [&](std::uint64_t seed, std::uint32_t step, int op) {
    tape.set_random(seed, step);
    for (int i = 0; i < op; ++i) dropout(ones(), Real{0.5});
    return multipliers(Real{0.5});
  };
  const Values first = at(1, 1, 0);
  EXPECT_EQ(at(1, 1, 0), first);
  EXPECT_NE(at(1, 1, 1), first) << "the next op";
  EXPECT_NE(at(1, 2, 0), first) << "the next step";
  EXPECT_NE(at(2, 1, 0), first) << "another seed";
  tape.set_random(1, 1, 7);
  const Values later = multipliers(Real{0.5});
  EXPECT_NE(later, first) << "the streams of another tape";
  tape.reset();
  EXPECT_EQ(multipliers(Real{0.5}), later) << "the same streams after a reset";
}

}  // namespace
}  // namespace headcount
