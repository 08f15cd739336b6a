// programs: in_double
// The gated delta rule at the ends of its gates, and from where it left off.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <limits>

#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"

namespace headcount {
namespace {

// The state decays at once, even where sums of gates would overflow, or never, or by channel, and
// takes in nothing of a value or all of it.
TEST(GatedDeltaRule, IsTheRecurrenceAtTheEndsOfItsGates) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  constexpr Real kHuge{-3e38};
  for (const Values& g : {Values{-200},
                          {Real{-1e-6}},
                          {0},
                          {-200, 0, Real{-1e-6}, -30},
                          {kHuge},
                          {-kInfinity},
                          {-kInfinity, -1, kHuge, -kInfinity}}) {
    for (const Real beta : {Real{0}, Real{1}}) {
      Shape gates = {1, 70, 1};
      if (g.size() > 1) gates.append(std::ssize(g));
      const Shape keys = {1, 70, 1, 4};
      auto inputs =
          normal_inputs("ends", std::array<Shape, 5>{keys, keys, {1, 70, 1, 3}, gates, {1, 70, 1}});
      for (Real& k : inputs[1].values) k *= Real{0.3};
      for (std::size_t i = 0; i < inputs[3].values.size(); ++i)
        inputs[3].values[i] = g[i % g.size()];
      inputs[4].values.assign(70, beta);
      const auto results = [&](const auto& rule) {
        const auto of_inputs = [&](Tape&, std::span<const Var> x) {
          return rule(x[0], x[1], x[2], x[3], x[4], std::span<Real>());
        };
        return evaluate(of_inputs, inputs);
      };
      EXPECT_LT(difference(results(gated_delta_rule), results(composed_gated_delta_rule)),
                kComposedTolerance)
          << "g " << g.front() << " of " << g.size() << ", beta " << beta;
    }
  }
}

// Tokens [first, first + count) of x [B, T, ...].
Var tokens(Var x, Index first, Index count) {
  const Shape s = x.shape();
  Shape piece;
  for (int i = 0; i < s.rank(); ++i) piece.append(i == 1 ? count : s[i]);
  return gathered(x, piece, [=, axis = static_cast<std::size_t>(5 - s.rank())](Position p) {
    p[axis] += first;
    return p;
  });
}

// Pieces of a text one after the other, each from the state that the one before it left.
TEST(GatedDeltaRule, GoesOnFromTheStateThatItLeft) {
  EXPECT_TRUE(rc::check([] {
    const Index batch = any_size(1, 2), groups = any_size(1, 2), heads = groups * any_size(1, 2);
    const Index dk = any_size(1, 6), dv = any_size(1, 6);
    const std::array<Index, 6> pieces = {1, any_size(1, 80), 1, 1, any_size(1, 70), 2};
    Index length = 0;
    for (const Index piece : pieces) length += piece;
    const Shape keys = {batch, length, groups, dk}, betas = {batch, length, heads};
    const Shape gates = any_size(0, 1) == 0 ? betas : Shape{batch, length, heads, dk};
    auto inputs =
        normal_inputs("delta" + std::to_string(any_size(0, 1000)),
                      std::array<Shape, 5>{keys, keys, {batch, length, heads, dv}, gates, betas});
    make_delta_inputs(inputs);
    for (CheckedInput& input : inputs) input.differentiable = false;
    Tape tape;
    const std::vector<Var> x = record(tape, inputs);
    Values state(static_cast<std::size_t>(batch * heads * dk * dv)), last = state;
    const Var whole = composed_gated_delta_rule(x[0], x[1], x[2], x[3], x[4], last);
    Index first = 0;
    for (const Index piece : pieces) {
      const auto part = [&](std::size_t i) { return tokens(x[i], first, piece); };
      const Var y = gated_delta_rule(part(0), part(1), part(2), part(3), part(4), state);
      const Var expected = tokens(whole, first, piece);
      RC_ASSERT(difference(y.value(), expected.value()) < kComposedTolerance);
      first += piece;
    }
    RC_ASSERT(difference(state, last) < kComposedTolerance);
  }));
}

}  // namespace
}  // namespace headcount
