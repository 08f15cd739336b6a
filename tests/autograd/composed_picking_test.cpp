// programs: in_double
// Scores of an indexer, rows that are picked by them, and its loss, against their compositions.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"
#include "autograd/parallel.h"

namespace headcount {
namespace {

using Inputs = std::span<const Var>;

bool one_of(Index n) { return any_size(1, n) == 1; }

std::string any_name() { return "picks" + std::to_string(any_size(0, 1000)); }

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

// Several pieces of queries and tiles of rows. Sometimes one of the inputs needs no gradient.
// Scores of small integers are often equal. The second call adds its gradients to those of the
// first.
TEST(ComposedPicking, PickRows) {
  EXPECT_TRUE(rc::check([] {
    const Index batch = any_size(1, 3), length = one_of(4) ? 1 : any_size(2, 150);
    const Index heads = one_of(4) ? any_size(6, 32) : any_size(1, 5), width = any_size(1, 6);
    const TopK sizes = any_sizes(length);
    const Index spare = one_of(4) ? 70 : any_size(-2, 2);
    const Index rows = std::max<Index>(
        1, one_of(5) ? any_size(1, 5) : (sizes.first_position + length) / sizes.tokens + spare);
    const std::array<Shape, 3> shapes = {
        {{batch, length, heads, width}, {batch, rows, 1, width}, {batch, length, heads}}};
    auto inputs = normal_inputs(any_name(), shapes);
    const bool equal = one_of(2);
    for (CheckedInput& input : inputs) {
      for (Real& number : input.values) number = equal ? std::round(number) : number;
    }
    if (one_of(3)) inputs[static_cast<std::size_t>(any_size(0, 2))].differentiable = false;
    std::vector<std::int32_t> lists;
    const auto twice = [&](const auto& pick) {
      return [&, pick](Tape&, Inputs x) {
        const Picks picks = pick(x[0], x[1], x[2], Real{0.5}, sizes);
        const std::int32_t* const list = picks.picked.rows;
        lists.assign(list, list + batch * length * sizes.most);
        return concat(picks.scores, pick(x[0], x[1], x[2], Real{2}, sizes).scores);
      };
    };
    const OpEvaluation composed = evaluate(twice(composed_pick_rows), inputs);
    const std::vector<std::int32_t> wanted = lists;
    RC_ASSERT(difference(evaluate(twice(pick_rows), inputs), composed) < kComposedTolerance);
    RC_ASSERT(lists == wanted);
    const OnOneThread here;  // there is one piece of scratch memory then
    RC_ASSERT(difference(evaluate(twice(pick_rows), inputs), composed) < kComposedTolerance);
  }));
}

// Weights of the listed rows, of which some are 0, as all of one query in eight are.
TEST(ComposedPicking, IndexLoss) {
  EXPECT_TRUE(rc::check([] {
    const Index most = any_size(1, 12);
    const Shape shape = {any_size(1, 3), any_size(1, 40), most};
    std::vector<std::int32_t> rows;
    std::vector<Real> weights = normal_values(
        "picked weights", static_cast<std::uint32_t>(any_size(0, 1000)), shape.rows() * most);
    for (Index i = 0; i < shape.rows(); ++i) {
      const Index count = any_size(0, most);
      for (Index j = 0; j < most; ++j) {
        Real& weight = weights[static_cast<std::size_t>(i * most + j)];
        weight = j < count && i % 8 != 5 ? std::max(Real{0}, weight + Real{1}) : 0;
        rows.push_back(j < count ? static_cast<std::int32_t>(2 * j) : -1);
      }
    }
    auto inputs = normal_inputs(any_name(), std::array<Shape, 1>{shape});
    const Real spread = *rc::gen::element(Real{1}, Real{20});
    for (Real& score : inputs[0].values) score *= spread;
    // A second reader of the scores adds its gradient.
    const auto of = [&](const auto& loss) {
      return [&, loss](Tape&, Inputs x) {
        return loss({{rows.data(), most, weights.data()}, x[0]}) + sum(x[0]);
      };
    };
    RC_ASSERT(difference(evaluate(of(index_loss), inputs),
                         evaluate(of(composed_index_loss), inputs)) < kComposedTolerance);
  }));
}

}  // namespace
}  // namespace headcount
