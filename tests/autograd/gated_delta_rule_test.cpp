// programs: in_double
// The gated delta rule and its convolution against their formulas, and from where they left off.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <limits>

#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"
#include "autograd/op_cases.h"

namespace headcount {
namespace {

using Inputs = std::span<const Var>;
using Values = std::vector<Real>;

std::vector<CheckedInput> delta_inputs(Index batch, Index length, Index groups, Index heads,
                                       Index dk, Index dv) {
  const Shape keys = {batch, length, groups, dk}, betas = {batch, length, heads};
  const Shape gates = any_size(0, 1) == 0 ? betas : Shape{batch, length, heads, dk};
  const std::array<Shape, 5> shapes = {keys, keys, {batch, length, heads, dv}, gates, betas};
  auto inputs = normal_inputs("delta" + std::to_string(any_size(0, 1000)), shapes);
  make_delta_inputs(inputs);
  return inputs;
}

void agree(const CheckedFunction& fused, const CheckedFunction& composed,
           const std::vector<CheckedInput>& inputs) {
  const double error = difference(evaluate(fused, inputs), evaluate(composed, inputs));
  RC_LOG() << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

Var fused_rule(Tape&, Inputs x) { return gated_delta_rule(x[0], x[1], x[2], x[3], x[4]); }

TEST(GatedDeltaRule, IsTheRecurrenceTokenByToken) {
  EXPECT_TRUE(rc::check([] {
    const Index groups = any_size(1, 3);
    agree(
        fused_rule,
        [](Tape&, Inputs x) { return composed_gated_delta_rule(x[0], x[1], x[2], x[3], x[4]); },
        delta_inputs(any_size(1, 2), any_size(1, 140), groups, groups * any_size(1, 2),
                     any_size(1, 9), any_size(1, 9)));
  }));
}

// The state decays at once, even where sums of gates would overflow, or never, or by channel, and
// takes in nothing of a value or all of it.
TEST(GatedDeltaRule, IsTheRecurrenceAtTheEndsOfItsGates) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  for (const std::vector<Real>& g : {std::vector<Real>{-200},
                                     {Real{-1e-6}},
                                     {0},
                                     {-200, 0, Real{-1e-6}, -30},
                                     {static_cast<Real>(-3e38)},
                                     {-kInfinity},
                                     {-kInfinity, -1, static_cast<Real>(-3e38), -kInfinity}}) {
    for (const Real beta : {Real{0}, Real{1}}) {
      Shape gates = {1, 70, 1};
      if (g.size() > 1) gates.append(std::ssize(g));
      auto inputs = normal_inputs(
          "ends",
          std::array<Shape, 5>{{{1, 70, 1, 4}, {1, 70, 1, 4}, {1, 70, 1, 3}, gates, {1, 70, 1}}});
      for (Real& k : inputs[1].values) k *= Real{0.3};
      for (std::size_t i = 0; i < inputs[3].values.size(); ++i)
        inputs[3].values[i] = g[i % g.size()];
      inputs[4].values.assign(70, beta);
      const auto composed = [](Tape&, Inputs x) {
        return composed_gated_delta_rule(x[0], x[1], x[2], x[3], x[4]);
      };
      EXPECT_LT(difference(evaluate(fused_rule, inputs), evaluate(composed, inputs)),
                kComposedTolerance)
          << "g " << g.front() << " of " << g.size() << ", beta " << beta;
    }
  }
}

TEST(GatedDeltaRule, WithEqualDecaysOfChannelsIsThatOfHeads) {
  EXPECT_TRUE(rc::check([] {
    const Index groups = any_size(1, 2), heads = groups * any_size(1, 2), dk = any_size(1, 20);
    const Index batch = any_size(1, 2), length = any_size(1, 140);
    const Shape keys = {batch, length, groups, dk}, gates = {batch, length, heads};
    auto inputs = normal_inputs(
        "equal" + std::to_string(any_size(0, 1000)),
        std::array<Shape, 5>{keys, keys, {batch, length, heads, any_size(1, 9)}, gates, gates});
    make_delta_inputs(inputs);
    const auto by_channel = [=](Tape& tape, Inputs x) {
      const Var ones = filled(tape, {batch, length, 1, dk}, 1);
      const Var g = matrix_product(reshape(x[3], {batch, length, heads, 1}), ones);
      return gated_delta_rule(x[0], x[1], x[2], g, x[4]);
    };
    agree(fused_rule, by_channel, inputs);
  }));
}

// Tokens [first, first + count) of x [B, T, ...].
Var tokens(Var x, Index first, Index count) {
  const Shape s = x.shape();
  const Index width = s.size() / s[0] / s[1];
  Shape piece;
  for (int i = 0; i < s.rank(); ++i) piece.append(i == 1 ? count : s[i]);
  return reshape(columns(reshape(x, {s[0], s[1] * width}), first * width, count * width), piece);
}

// Pieces of a text one after the other, each from the state that the one before it left.
TEST(GatedDeltaRule, GoesOnFromTheStateThatItLeft) {
  EXPECT_TRUE(rc::check([] {
    const Index batch = any_size(1, 2), groups = any_size(1, 2), heads = groups * any_size(1, 2);
    const Index dk = any_size(1, 6), dv = any_size(1, 6);
    const std::array<Index, 6> pieces = {1, any_size(1, 80), 1, 1, any_size(1, 70), 2};
    Index length = 0;
    for (const Index piece : pieces) length += piece;
    const auto inputs = delta_inputs(batch, length, groups, heads, dk, dv);
    Tape tape;
    std::vector<Var> x;
    for (const CheckedInput& input : inputs) x.push_back(tape.constant(input.shape, input.values));
    Var last;
    const Var whole = composed_gated_delta_rule(x[0], x[1], x[2], x[3], x[4], &last);
    Values state(static_cast<std::size_t>(batch * heads * dk * dv), Real{0});
    Index first = 0;
    for (const Index piece : pieces) {
      const auto part = [&](std::size_t i) { return tokens(x[i], first, piece); };
      const Var y = gated_delta_rule(part(0), part(1), part(2), part(3), part(4), state);
      const auto got = y.value(), expected = tokens(whole, first, piece).value();
      RC_ASSERT(difference(OpEvaluation{{got.begin(), got.end()}, {}},
                           OpEvaluation{{expected.begin(), expected.end()}, {}}) <
                kComposedTolerance);
      first += piece;
    }
    const auto expected = last.value();
    RC_ASSERT(difference(OpEvaluation{state, {}}, OpEvaluation{{expected.begin(), expected.end()},
                                                               {}}) < kComposedTolerance);
  }));
}

TEST(CausalConvolution, IsTheSumOverItsTaps) {
  EXPECT_TRUE(rc::check([] {
    const Index channels = any_size(1, 40), first = any_size(0, 3);
    const std::array<Shape, 2> shapes = {
        {{any_size(1, 3), any_size(1, 60), channels}, {channels + first, 1, any_size(1, 6)}}};
    agree([=](Tape&, Inputs x) { return causal_convolution(x[0], x[1], first); },
          [=](Tape&, Inputs x) { return composed_causal_convolution(x[0], x[1], first); },
          normal_inputs("convolution" + std::to_string(any_size(0, 1000)), shapes));
  }));
}

TEST(CausalConvolution, WithASkipIsAddedToItsInput) {
  EXPECT_TRUE(rc::check([] {
    const Index channels = any_size(1, 40);
    const std::array<Shape, 2> shapes = {
        {{any_size(1, 3), any_size(1, 60), channels}, {channels, 1, any_size(1, 6)}}};
    agree([](Tape&, Inputs x) { return causal_convolution(x[0], x[1], 0, Skip::input); },
          [](Tape&, Inputs x) { return x[0] + composed_causal_convolution(x[0], x[1], 0); },
          normal_inputs("skip" + std::to_string(any_size(0, 1000)), shapes));
  }));
}

TEST(CausalConvolution, GoesOnFromTheInputsThatItSaw) {
  const Shape shape = {2, 9, 5}, weight = {5, 1, 4};
  Tape tape;
  const Var x = tape.constant(shape, normal_values("x", 0, shape.size()));
  const Var w = tape.constant(weight, normal_values("w", 0, weight.size()));
  const Var whole = causal_convolution(x, w, 0);
  for (const std::vector<Index>& pieces :
       {std::vector<Index>{9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 5, 1, 1}, {4, 3, 2}}) {
    Index first = 0;
    for (const Index piece : pieces) {
      const Index before = std::min<Index>(first, 3);
      const Var inputs = tokens(x, first - before, before + piece);
      const auto got = causal_convolution(inputs, w, 0, Skip::none, piece).value();
      const auto expected = tokens(whole, first, piece).value();
      EXPECT_TRUE(std::ranges::equal(got, expected)) << "from token " << first;
      first += piece;
    }
  }
}

TEST(PooledTokens, AreSumsWeightedByASoftmax) {
  EXPECT_TRUE(rc::check([] {
    const Index block = any_size(1, 6), length = block + any_size(0, 40);
    const Index channels = any_size(1, 40);
    const Shape shape = {any_size(1, 3), length, channels};
    const std::array<Shape, 3> shapes = {shape, shape, {block, channels}};
    agree([](Tape&, Inputs x) { return *pool_tokens(x[0], x[1], x[2]); },
          [](Tape&, Inputs x) { return *composed_pool_tokens(x[0], x[1], x[2]); },
          normal_inputs("pool" + std::to_string(any_size(0, 1000)), shapes));
  }));
}

}  // namespace
}  // namespace headcount
