#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/evaluation.h"
#include "autograd/ops.h"
#include "autograd/parallel.h"

namespace headcount {
namespace {

// Two linear layers on the output of a third.
class ThreeLayers {
 public:
  explicit ThreeLayers(Precision precision) {
    const auto add = [&](const char* name, Index out, Index in) {
      return store.add(name, {out, in}, Initializer::normal(0.1));
    };
    first = add("first", 64, 48);
    second = add("second", 40, 64);
    third = add("third", 40, 64);
    store.allocate();
    store.initialize(1);
    store.set_precision(precision);
  }
  Var forward(Tape& tape) {
    x = tape.leaf({kRows, 48}, normal_values("x", 0, kRows * 48));
    const Var hidden = gelu(linear(x, tape.parameter(first)));
    return linear(hidden, tape.parameter(second)) + linear(hidden, tape.parameter(third));
  }
  // The value and the gradients of x and the three weights.
  OpEvaluation evaluate() {
    Tape tape(&store);
    store.clear_gradients();
    const Var y = forward(tape);
    OpEvaluation result{copy(y.value()), {}};
    tape.backward(y, normal_values("cotangent", 0, y.shape().size()));
    result.gradients.push_back(copy(x.gradient()));
    for (const ParameterId id : {first, second, third})
      result.gradients.push_back(copy(store.gradient(id)));
    return result;
  }

  static constexpr Index kRows = 150;
  ParameterStore store;
  ParameterId first, second, third;
  Var x;
};

double relative_difference(std::span<const Real> a, std::span<const Real> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i] - b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

TEST(LinearInBf16, IsNearTheOneInF32WithItsGradients) {
  const OpEvaluation exact = ThreeLayers(Precision::f32).evaluate();
  const OpEvaluation near = ThreeLayers(Precision::bf16).evaluate();
  constexpr double kLeast = 1e-4, kMost = 1e-2;  // one rounding: 2^-9 at most, 0.0017 on average
  for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
    const double difference = relative_difference(near.gradients[i], exact.gradients[i]);
    EXPECT_GT(difference, kLeast) << "gradient " << i << " was not computed of rounded numbers";
    EXPECT_LT(difference, kMost) << "gradient " << i;
  }
  EXPECT_GT(relative_difference(near.value, exact.value), kLeast);
  EXPECT_LT(relative_difference(near.value, exact.value), kMost);
}

TEST(LinearInBf16, GivesTheSameBitsForAnyNumberOfThreads) {
  set_threads(1);
  const OpEvaluation alone = ThreeLayers(Precision::bf16).evaluate();
  for (const int count : {2, 3}) {
    set_threads(count);
    EXPECT_TRUE(bitwise_equal(ThreeLayers(Precision::bf16).evaluate(), alone)) << count;
  }
  set_threads(0);
}

TEST(LinearInBf16, ReadsFewRowsAndTheirWeightsAsTheyAre) {
  std::array<std::vector<Real>, 2> values;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    ThreeLayers layers(precision);
    Tape tape(&layers.store);
    const Var x = tape.leaf({7, 48}, normal_values("x", 0, 7 * 48));
    values[precision == Precision::bf16] = copy(linear(x, tape.parameter(layers.first)).value());
  }
  EXPECT_EQ(values[0], values[1]);
}

}  // namespace
}  // namespace headcount
