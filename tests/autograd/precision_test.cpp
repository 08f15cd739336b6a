#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "autograd/bfloat16.h"
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
    hidden = gelu(linear(x, tape.parameter(first)), ReadBy::products);
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
  Var x, hidden;
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

TEST(LinearInBf16, RoundsEachOperandOnceAStep) {
  ThreeLayers layers(Precision::bf16);
  const OpEvaluation expected = layers.evaluate();
  Tape tape(&layers.store);
  layers.store.clear_gradients();
  const Var y = layers.forward(tape);
  // Backward reads the rounded copies that forward made.
  std::fill_n(tape.value(layers.x), layers.x.shape().size(),
              std::numeric_limits<Real>::quiet_NaN());
  for (const ParameterId id : {layers.first, layers.second, layers.third})
    std::ranges::fill(layers.store.value(id), std::numeric_limits<Real>::quiet_NaN());
  tape.backward(y, normal_values("cotangent", 0, y.shape().size()));
  EXPECT_EQ(copy(layers.x.gradient()), expected.gradients.front());
  EXPECT_EQ(copy(layers.store.gradient(layers.first)), expected.gradients[1]);
  EXPECT_EQ(copy(layers.store.gradient(layers.third)), expected.gradients[3]);
}

TEST(LinearInBf16, KeepsWhatProductsAloneReadAsBf16Only) {
  ThreeLayers layers(Precision::bf16), exact(Precision::f32);
  Tape tape(&layers.store), exact_tape(&exact.store);
  layers.forward(tape);
  EXPECT_TRUE(tape.rounded_only(layers.hidden));
  // A reader that is no product gets the rounded numbers.
  const std::vector<Real> numbers = copy(layers.hidden.value());
  std::vector<Bfloat16> rounded(numbers.size());
  std::vector<Real> again(numbers.size());
  round_to_bf16(numbers.data(), std::ssize(numbers), rounded.data());
  widen(rounded.data(), std::ssize(rounded), again.data());
  EXPECT_EQ(again, numbers);
  exact.forward(exact_tape);
  EXPECT_FALSE(exact_tape.rounded_only(exact.hidden));
  EXPECT_LT(relative_difference(numbers, exact.hidden.value()), 1e-2);
}

TEST(LinearInBf16, AllocatesNothingAfterTheFirstStep) {
  ThreeLayers layers(Precision::bf16);
  Tape tape(&layers.store);
  std::size_t allocations = 0;
  for (int step = 0; step < 3; ++step) {
    tape.reset();
    layers.store.clear_gradients();
    tape.backward(layers.forward(tape));
    if (step == 0) allocations = tape.heap_allocations();
  }
  EXPECT_EQ(tape.heap_allocations(), allocations);
}

TEST(ParameterStore, RoundsItsValuesForProductsWhenItIsTold) {
  ThreeLayers layers(Precision::bf16);
  const OpEvaluation before = layers.evaluate();
  for (Real& value : layers.store.value(layers.second)) value *= 2;
  EXPECT_TRUE(bitwise_equal(layers.evaluate(), before)) << "weights were rounded anew";
  layers.store.round_values();
  EXPECT_FALSE(bitwise_equal(layers.evaluate(), before));
  layers.store.initialize(1);
  EXPECT_TRUE(bitwise_equal(layers.evaluate(), before));
  layers.store.set_precision(Precision::f32);
  EXPECT_TRUE(bitwise_equal(layers.evaluate(), ThreeLayers(Precision::f32).evaluate()));
}

TEST(HeadLinearInBf16, IsNearTheOneInF32WithItsGradients) {
  for (const Stored stored : {Stored::as_is, Stored::transposed}) {
    std::array<OpEvaluation, 2> results;
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      ParameterStore store;
      const ParameterId weight = store.add("weight", {4 * 40, 48}, Initializer::normal(0.1));
      store.set_precision(precision);
      store.allocate();
      store.initialize(1);
      Tape tape(&store);
      const Shape shape = {3, 20, 4, stored == Stored::transposed ? 48 : 32};
      const Var x = tape.leaf(shape, normal_values("x", 0, shape.size()));
      const Var y = head_linear(x, tape.parameter(weight), 8, 32, stored);
      tape.backward(y, normal_values("cotangent", 0, y.shape().size()));
      results[precision == Precision::bf16] = {copy(y.value()),
                                               {copy(x.gradient()), copy(store.gradient(weight))}};
    }
    const auto& [exact, near] = results;
    EXPECT_LT(relative_difference(near.value, exact.value), 1e-2);
    EXPECT_GT(relative_difference(near.value, exact.value), 1e-4);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_LT(relative_difference(near.gradients[i], exact.gradients[i]), 1e-2);
  }
}

}  // namespace
}  // namespace headcount
