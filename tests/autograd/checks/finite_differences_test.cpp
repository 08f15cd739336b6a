// programs: gradcheck
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "autograd/checks/dry_counts.h"
#include "autograd/evaluation.h"
#include "autograd/op_cases.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"

namespace headcount {
namespace {

using Inputs = std::span<const Var>;

constexpr double kOpTolerance = 1e-6;

bool records(Op op, const OpCase& c) {
  Tape tape;
  const Var output = c.function(tape, record(tape, c.inputs));
  for (Var at = output;; --at.index) {
    if (tape.op(at) == op) return true;
    if (at.index == 0) return false;
  }
}

class GradientOfOp : public testing::TestWithParam<Op> {
 protected:
  // Thousands of tiny loops: waking a second thread for each takes longer than they do.
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(0); }
};
INSTANTIATE_TEST_SUITE_P(Gradient, GradientOfOp, testing::ValuesIn(ops_with_cases()),
                         [](const auto& at) { return std::string(name(at.param)); });

TEST(OpCases, RecordTheirOp) {
  for (const Op op : ops_with_cases()) {
    for (const CaseSize size : {CaseSize::tiny, CaseSize::large}) {
      for (const OpCase& c : op_cases(op, size)) EXPECT_TRUE(records(op, c)) << c.name;
    }
  }
}

// Attention is left out: the kernel counts whole tiles but those that nobody sees, a dry
// tape what is visible or masked. Tests of layers' costs compare their counts.
TEST(OpCases, HaveTheirShapesAndTheirProductsOnADryTape) {
  for (const Op op : ops_with_cases()) {
    for (OpCase& c : op_cases(op, CaseSize::tiny)) {
      for (CheckedInput& input : c.inputs) input.differentiable = false;
      const ParameterStore none;
      DryCounts counts;
      Tape real, dry(none, counts);
      const std::vector<Var> inputs = record(real, c.inputs), shapes = record(dry, c.inputs);
      const MacCounter counter;
      const Var y = c.function(real, inputs), z = c.function(dry, shapes);
      EXPECT_EQ(z.shape(), y.shape()) << c.name;
      EXPECT_THROW(z.value(), Error) << c.name;
      EXPECT_EQ(counts.sum().of_cache, 0) << c.name;
      if (op != Op::attention) {
        EXPECT_EQ(counts.sum().of_tokens, counter.count()) << c.name;
      }
    }
  }
}

TEST_P(GradientOfOp, EveryElementAgreesWithFiniteDifferences) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::tiny)) {
    const GradientReport report =
        check_gradients(c.function, c.inputs, {.every_element_up_to = 2000});
    EXPECT_LE(report.error, kOpTolerance) << c.name << ": " << report.text();
    Index elements = 0;
    for (const CheckedInput& input : c.inputs) elements += input.shape.size();
    EXPECT_EQ(report.derivatives, elements) << c.name;
  }
}

TEST_P(GradientOfOp, RandomDirectionAgreesOnLargeShapes) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::large)) {
    const GradientReport report = check_gradients(c.function, c.inputs, {.every_element_up_to = 0});
    EXPECT_LE(report.error, kOpTolerance) << c.name << ": " << report.text();
    EXPECT_EQ(report.derivatives, std::ssize(c.inputs)) << c.name;
  }
}

TEST_P(GradientOfOp, AddsToGradientsThatAreThereAlready) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::tiny)) {
    OpEvaluation once = evaluate(c.function, c.inputs);
    const OpEvaluation twice = evaluate(c.function, c.inputs, 2);
    for (std::vector<Real>& gradient : once.gradients) {
      for (Real& x : gradient) x *= 2;
    }
    EXPECT_LE(difference(once, twice), 1e-13) << c.name;
  }
}

TEST_P(GradientOfOp, OfOneInputDoesNotDependOnWhetherOthersNeedTheirs) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::tiny)) {
    const OpEvaluation all = evaluate(c.function, c.inputs);
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      std::vector<CheckedInput> inputs = c.inputs;
      for (std::size_t j = 0; j < inputs.size(); ++j) inputs[j].differentiable = j == i;
      OpEvaluation one = all;
      for (std::size_t j = 0; j < inputs.size(); ++j) {
        if (j != i) one.gradients[j].clear();
      }
      EXPECT_TRUE(bitwise_equal(evaluate(c.function, inputs), one)) << c.name << ", input " << i;
    }
  }
}

// The check itself: what it must catch.

// y = 2 x, claims dx = 2.001 dy.
Var wrong_scale(Var x) { return scale(x, Real{2.001}) - scale(x.tape->detached(x), Real{0.001}); }

// A softmax that claims to have no gradient: true of the sum of its values, and of nothing else.
Var softmax_without_gradient(Var x) { return softmax(x.tape->detached(x)) + scale(x, 0); }

std::vector<CheckedInput> one_input(Index count) {
  const Shape shape = {count};
  return normal_inputs("gradient check", {&shape, 1});
}

// |2.001 - 2| / (2.001 + 2), whatever the element's weight.
TEST(GradientCheck, CatchesAWrongFactorInEveryElementAndInARandomDirection) {
  for (const Index every_element_up_to : {7, 6}) {
    const auto report = check_gradients([](Tape&, Inputs x) { return wrong_scale(x[0]); },
                                        one_input(7), {.every_element_up_to = every_element_up_to});
    EXPECT_NEAR(report.error, 0.001 / 4.001, 1e-8);
    EXPECT_EQ(report.derivatives, every_element_up_to == 7 ? 7 : 1);
  }
}

TEST(GradientCheck, CatchesOneWrongElementAndNamesIt) {
  const auto function = [](Tape& tape, Inputs x) {
    return x[0] * concat(columns(x[1], 0, 5), columns(tape.detached(x[1]), 5, 1));
  };
  const Shape shape = {6};
  const auto report = check_gradients(function, normal_inputs("named", std::array{shape, shape}));
  EXPECT_EQ(report.input, 1u);
  EXPECT_EQ(report.element, 5);
  EXPECT_DOUBLE_EQ(report.analytic, 0);
  EXPECT_DOUBLE_EQ(report.error, 1);
  EXPECT_NE(report.text().find("input 1 in element 5"), std::string::npos) << report.text();
}

TEST(GradientCheck, CatchesWhatACotangentOfOnesHides) {
  const auto summed = check_gradients(
      [](Tape&, Inputs x) { return sum(softmax_without_gradient(x[0])); }, one_input(6));
  EXPECT_LE(summed.error, kOpTolerance)
      << "the sum of a softmax is 1, whatever its gradient claims";
  const auto weighted =
      check_gradients([](Tape&, Inputs x) { return softmax_without_gradient(x[0]); }, one_input(6));
  EXPECT_DOUBLE_EQ(weighted.error, 1);
}

TEST(GradientCheck, CatchesANonFiniteGradient) {
  // The square of x is 0, the gradient of the ratio infinite.
  const std::vector<Real> tiny = {std::numeric_limits<Real>::min()};
  const auto function = [&](Tape& tape, Inputs x) { return tape.constant({1}, tiny) / x[0]; };
  EXPECT_TRUE(std::isinf(check_gradients(function, {{{1}, tiny}}).error));
}

TEST(GradientCheck, LeavesConstantsAlone) {
  std::vector<CheckedInput> inputs = {one_input(4)[0], one_input(4)[0]};
  inputs[1].differentiable = false;
  const auto report =
      check_gradients([](Tape&, Inputs x) { return x[0] * wrong_scale(x[1]); }, inputs);
  EXPECT_LE(report.error, kOpTolerance) << report.text();
  EXPECT_EQ(report.derivatives, 4);
}

// Parameters of a store, instead of leaves.
class GradientParameters : public testing::Test {
 protected:
  GradientParameters() {
    table = store.add("table", {7, 4}, Initializer::normal(1));
    weight = store.add("weight", {20, 20}, Initializer::normal(0.3));
    bias = store.add("bias", {20}, Initializer::normal(1));
    unused = store.add("unused", {3}, Initializer::ones());
    store.allocate();
    store.initialize(3);
  }
  Var rows(Tape& tape) const {
    const std::vector<std::int32_t> ids = {0, 6, 2, 2, 5, 1, 3, 3, 3, 4};
    return reshape(embedding(tape.parameter(table), ids, {10}), {2, 20});
  }
  ParameterStore store;
  ParameterId table, weight, bias, unused;
};

TEST_F(GradientParameters, UsedTwiceAndNotAtAll) {
  const auto function = [this](Tape& tape) {
    const Var w = tape.parameter(weight);
    const Var h = silu(linear(rows(tape), w, tape.parameter(bias)));
    return linear(h, tape.parameter(weight)) + tape.parameter(bias);
  };
  const std::vector<Real> before(store.all_values().begin(), store.all_values().end());
  const GradientReport report = check_parameter_gradients(function, store, {.directions = 3});
  EXPECT_LE(report.error, kOpTolerance) << report.text();
  EXPECT_EQ(report.derivatives, 7 * 4 + 3 + 20 + 3);
  EXPECT_TRUE(std::ranges::equal(store.all_values(), before)) << "values must be as they were";
  for (std::size_t i = 0; i < store.size(); ++i) {
    EXPECT_TRUE(store.gradient({i}).empty()) << store.name({i}) << " must be cleared";
  }
}

TEST_F(GradientParameters, WrongGradientIsCaughtAndNamed) {
  const auto function = [this](Tape& tape) {
    return linear(rows(tape), tape.parameter(weight), wrong_scale(tape.parameter(bias)));
  };
  const GradientReport report = check_parameter_gradients(function, store);
  EXPECT_NEAR(report.error, 0.001 / 4.001, 1e-8);
  EXPECT_EQ(report.input, bias.index);
}

}  // namespace
}  // namespace headcount
