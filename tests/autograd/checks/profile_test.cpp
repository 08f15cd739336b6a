#include "autograd/checks/profile.h"

#include <gtest/gtest.h>

#include "autograd/ops.h"

namespace headcount {
namespace {

TEST(Profile, CountsCallsWorkAndTrafficOfEachOpUntilTheTapeHasNone) {
  constexpr Index kRows = 6, kIn = 5, kOut = 7;
  const std::vector<Real> xs(kRows * kIn, 1), ws(kOut * kIn, 1);
  Profile profile;
  Tape tape;
  for (const bool watched : {true, true, false}) {
    tape.reset();
    tape.watch(watched ? std::vector<TapeWatcher*>{&profile} : std::vector<TapeWatcher*>{});
    const Var x = tape.leaf({kRows, kIn}, xs), w = tape.leaf({kOut, kIn}, ws);
    tape.backward(sum(gelu(linear(x, w))));
  }
  const OpCost& linear = profile.cost(Op::linear);
  EXPECT_EQ(linear.calls, 2);
  EXPECT_GT(linear.forward_seconds, 0);
  EXPECT_GT(linear.backward_seconds, 0);
  EXPECT_EQ(linear.macs, 2 * 3 * kRows * kIn * kOut) << "y, dx and dW";
  constexpr double kInputs = kRows * kIn + kOut * kIn, kOutputs = kRows * kOut;
  EXPECT_EQ(linear.bytes, 2 * sizeof(Real) * (3 * kInputs + 2 * kOutputs));
  EXPECT_EQ(profile.cost(Op::gelu).calls, 2);
  EXPECT_EQ(profile.cost(Op::gelu).macs, 0);
  EXPECT_EQ(profile.cost(Op::softmax).calls, 0);
}

}  // namespace
}  // namespace headcount
