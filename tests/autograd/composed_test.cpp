// programs: autograd in_double
// Each op against its formula: values, and gradients of every input, with any options and shapes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <limits>

#include "autograd/any_size.h"
#include "autograd/attention/any_attention.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"
#include "autograd/op_cases.h"
#include "autograd/parallel.h"

namespace headcount {
namespace {

using Inputs = std::span<const Var>;

bool one_of(Index n) { return any_size(1, n) == 1; }

void agree(const OpEvaluation& fused, const OpEvaluation& composed) {
  const double error = difference(fused, composed);
  RC_LOG() << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

class ComposedOp : public testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Table, ComposedOp, testing::ValuesIn(ops_with_cases()),
                         [](const auto& at) { return std::string(name(at.param)); });

TEST_P(ComposedOp, HasTheValuesAndGradientsOfItsFormula) {
  EXPECT_TRUE(rc::check([] {
    const CaseSize size = one_of(6) ? CaseSize::large : CaseSize::tiny;
    const OpCase c = any_case(GetParam(), size, any_size);
    RC_LOG() << c.name << "\n";
    const bool has_none = GetParam() == Op::dropout || GetParam() == Op::reshape;
    RC_ASSERT((c.composed == nullptr) == has_none);
    if (!has_none) agree(evaluate(c.function, c.inputs), evaluate(c.composed, c.inputs));
  }));
}

TEST(Compositions, OfElementwiseFunctionsHaveTheirGradients) {
  const auto function = [](Tape&, Inputs x) {
    const Var e = composed_exponential(x[0]) * logarithm(x[0]);
    const Var f = composed_arithmetic(Op::divide, square_root(x[0]), error_function(x[0]));
    return composed_arithmetic(Op::subtract, e, composed_arithmetic(Op::multiply, f, e)) +
           gathered(composed_tanh(x[0]), {4}, [](const Position& p) {
             return Position{0, 0, 0, 2 - p[3]};
           });
  };
  std::vector<CheckedInput> inputs = {{{4}, {Real{0.3}, Real{0.9}, Real{1.4}, Real{2.2}}}};
  const GradientReport report = check_gradients(function, inputs);
  EXPECT_LT(report.error, sizeof(Real) == sizeof(double) ? 1e-8 : 0.1) << report.text();
}

// Entropies and weights, too: of all rows that a query reads, and of those that it picked.
void attentions_agree(Index shortest, Index longest) {
  AnyAttention drawn(any_size, shortest, longest, std::to_string(any_size(0, 1000)));
  RC_LOG() << drawn.name << "\n";
  drawn.stats = std::make_shared<AttentionStats>();
  drawn.picked_weights = std::make_shared<Values>(drawn.picked.size());
  drawn.block_weights = std::make_shared<Values>(drawn.picked_blocks.size());
  const auto results = [&](const CheckedFunction& function) {
    OpEvaluation result = evaluate(function, drawn.inputs);
    const AttentionStats& stats = *drawn.stats;
    const double entropy =
        stats.rows == 0 ? 0 : stats.entropy_sum / static_cast<double>(stats.rows);
    for (const Values& told :
         {stats.weights, stats.pooled_weights, *drawn.picked_weights, *drawn.block_weights,
          Values{static_cast<Real>(entropy), static_cast<Real>(stats.rows)}})
      result.gradients.push_back(told);
    return result;
  };
  agree(results(drawn.with(fused_attention)), results(drawn.with(composed_attention)));
}

// Twice as many query heads as KV heads, whole texts and the last tokens of one.
TEST(PlainAttention, HasTheValuesAndGradientsOfTheFusedOp) {
  for (const Index queries : {5, 2}) {
    auto inputs = normal_inputs(
        "plain", std::array<Shape, 3>{{{2, queries, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8}}});
    for (CheckedInput& input : inputs)
      for (Real& x : input.values) x *= Real{0.5};
    const Real factor = Real{1} / std::sqrt(Real{8});
    const auto plain = [=](Tape&, Inputs x) { return plain_attention(x[0], x[1], x[2], factor); };
    const auto fused = [=](Tape&, Inputs x) {
      return attention(x[0], x[1], x[2], {.scale = factor});
    };
    EXPECT_LT(difference(evaluate(plain, inputs), evaluate(fused, inputs)),
              sizeof(Real) == sizeof(double) ? 1e-14 : 1e-6)
        << queries << " queries";
  }
}

TEST(ComposedAttention, AnyOptionsAndShapes) {
  EXPECT_TRUE(rc::check([] {
    for (int i = 0; i < 3; ++i) attentions_agree(1, 40);
  }));
}

TEST(ComposedAttention, LengthsOfSeveralTiles) {
  EXPECT_TRUE(rc::check([] { attentions_agree(60, 140); }));
}

// The state decays at once, even where sums of gates would overflow, or never, or by channel, and
// takes in nothing of a value or all of it.
TEST(ComposedDeltaRule, TheEndsOfItsGates) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity(), kHuge{-3e38};
  const auto rule = [](Tape&, Inputs x) { return gated_delta_rule(x[0], x[1], x[2], x[3], x[4]); };
  const auto composed = [](Tape&, Inputs x) {
    return composed_gated_delta_rule(x[0], x[1], x[2], x[3], x[4]);
  };
  for (const Values& g : {Values{-200},
                          {Real{-1e-6}},
                          {0},
                          {-200, 0, Real{-1e-6}, -30},
                          {kHuge},
                          {-kInfinity},
                          {-kInfinity, -1, kHuge, -kInfinity}}) {
    for (const Real beta : {Real{0}, Real{1}}) {
      const Shape keys = {1, 70, 1, 4}, betas = {1, 70, 1};
      const Shape gates = g.size() > 1 ? keys : betas;
      auto inputs =
          normal_inputs("ends", std::array<Shape, 5>{keys, keys, {1, 70, 1, 3}, gates, betas});
      for (Real& k : inputs[1].values) k *= Real{0.3};
      for (std::size_t i = 0; i < inputs[3].values.size(); ++i)
        inputs[3].values[i] = g[i % g.size()];
      inputs[4].values.assign(70, beta);
      EXPECT_LT(difference(evaluate(rule, inputs), evaluate(composed, inputs)), kComposedTolerance)
          << "g " << g.front() << " of " << g.size() << ", beta " << beta;
    }
  }
}

// Whether tokens come at once, one by one or cut anywhere: the loop over tokens, and its last
// state.
TEST(ComposedState, IsOneLoopWhereverItsTokensAreCut) {
  const Index length = 70, heads = 4, dk = 5, dv = 3;
  const Shape keys = {1, length, 2, dk}, values = {1, length, heads, dv};
  for (const bool delta : {true, false}) {
    for (const Shape& gates : {Shape{1, length, heads}, {1, length, heads, dk}, {heads}}) {
      auto inputs = normal_inputs(
          "cuts", std::array<Shape, 5>{keys, keys, values, gates, {1, length, heads}});
      for (Real& k : inputs[1].values) k *= Real{0.2};
      for (Real& g : inputs[3].values) g = -std::abs(g);
      Tape tape;
      // Tokens [begin, end) of input i.
      const auto cut = [&](std::size_t i, Index begin, Index end) {
        const Shape& all = inputs[i].shape;
        if (all.rank() == 1) return tape.constant(all, inputs[i].values);
        const Index count = end - begin, width = all.size() / length;
        return tape.constant(
            all.rank() == 3 ? Shape{1, count, all[2]} : Shape{1, count, all[2], all[3]},
            std::span(inputs[i].values).subspan(begin * width, count * width));
      };
      const auto rule = [&](Index begin, Index end, std::span<Real> state) {
        const auto x = [&](std::size_t i) { return cut(i, begin, end); };
        return delta ? gated_delta_rule(x(0), x(1), x(2), x(3), x(4), state)
                     : gated_linear_attention(x(0), x(1), x(2), x(3), x(4), state);
      };
      const auto whole = [&](std::size_t i) { return cut(i, 0, length); };
      const Var loop =
          delta ? composed_gated_delta_rule(whole(0), whole(1), whole(2), whole(3), whole(4))
                : composed_gated_linear_attention(whole(0), whole(1), whole(2), whole(3), whole(4));
      const double tolerance = sizeof(Real) == sizeof(double) ? 1e-12 : 1e-4;
      EXPECT_LT(difference(copy(rule(0, length, {}).value()), copy(loop.value())), tolerance);
      Values first;
      for (const Index step : {Index{1}, Index{7}, Index{64}, length}) {
        Values state(heads * dk * dv), y;
        for (Index t = 0; t < length; t += step) {
          const auto part = rule(t, std::min(length, t + step), state).value();
          y.insert(y.end(), part.begin(), part.end());
        }
        EXPECT_EQ(y, copy(rule(0, length, {}).value())) << step;
        if (first.empty()) first = state;
        EXPECT_EQ(state, first) << step;
      }
    }
  }
}

// One query that comes after many tokens; blocks longer than the text; fewer rows than there are
// blocks, and more; rows of a cache whose first rows were overwritten.
TopK any_sizes(Index length) {
  const Index first = one_of(2) ? 0 : any_size(1, length == 1 ? 200 : 20);
  const Index tokens = one_of(2) ? 1 : one_of(4) ? any_size(5, 80) : any_size(2, 4);
  return {.most = one_of(4) ? any_size(100, 300) : any_size(1, 20),
          .tokens = tokens,
          .first_position = first,
          .window = one_of(3) ? any_size(1, 90) : 0,
          .first_row = one_of(3) ? any_size(0, first / tokens) : 0};
}

// Several pieces of queries and tiles of rows, with weights, or blocks of rows without. Sometimes
// one of the inputs needs no gradient. Scores of small integers are often equal. The second call
// adds its gradients to those of the first.
TEST(ComposedPicking, PickRows) {
  EXPECT_TRUE(rc::check([] {
    const Index batch = any_size(1, 3), length = one_of(4) ? 1 : any_size(2, 150);
    const Index heads = one_of(4) ? any_size(6, 32) : any_size(1, 5), width = any_size(1, 6);
    TopK sizes = any_sizes(length);
    const bool weighs = sizes.tokens > 1 || one_of(2), equal = one_of(2);
    if (!weighs) {  // of equal products of several heads any has the gradient
      sizes.block = any_size(1, 9);
      sizes.lists = equal || one_of(2) ? heads : 1;
    }
    const Index spare = one_of(4) ? 70 : any_size(-2, 2);
    const Index rows = std::max<Index>(
        1, one_of(5) ? any_size(1, 5) : (sizes.first_position + length) / sizes.tokens + spare);
    const std::array<Shape, 3> shapes = {
        {{batch, length, heads, width}, {batch, rows, 1, width}, {batch, length, heads}}};
    auto inputs = normal_inputs("picks" + std::to_string(any_size(0, 1000)), shapes);
    for (CheckedInput& input : inputs) {
      for (Real& number : input.values) number = equal ? std::round(number) : number;
    }
    if (one_of(3)) inputs[static_cast<std::size_t>(any_size(0, 2))].differentiable = false;
    std::vector<std::int32_t> lists;
    const auto twice = [&](const auto& pick) {
      return [&, pick](Tape&, Inputs x) {
        const auto weights = weighs ? std::optional(x[2]) : std::nullopt;
        const Picks picks = pick(x[0], x[1], weights, Real{0.5}, sizes);
        const std::int32_t* const list = picks.picked.rows;
        lists.assign(list, list + picks.scores.shape().size());
        return concat(picks.scores, pick(x[0], x[1], weights, Real{2}, sizes).scores);
      };
    };
    const OpEvaluation composed = evaluate(twice(composed_pick_rows), inputs);
    const std::vector<std::int32_t> wanted = lists;
    agree(evaluate(twice(pick_rows), inputs), composed);
    RC_ASSERT(lists == wanted);
    const OnOneThread here;  // there is one piece of scratch memory then
    agree(evaluate(twice(pick_rows), inputs), composed);
  }));
}

}  // namespace
}  // namespace headcount
