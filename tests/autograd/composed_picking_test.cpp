// Rows that an indexer picks, and its loss, against their compositions.
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
using RowLists = std::vector<std::int32_t>;  // of all queries, one after the other
using Picker = Picks (*)(Var q, Var keys, Var weights, const PickOptions& options);

Picks fused_picks(Var q, Var keys, Var weights, const PickOptions& options) {
  return pick_rows(q, keys, weights, options);
}

RowLists lists_of(const Picks& picks) {
  return {picks.rows.rows, picks.rows.rows + picks.scores.shape().size()};
}

bool one_of(Index n) { return any_size(1, n) == 1; }

struct PickCase {
  Index batch, length, rows, heads, width;
  PickOptions options;

  // Queries, keys and weights of heads. Sometimes one of them needs no gradient.
  std::vector<CheckedInput> inputs() const {
    const std::array<Shape, 3> shapes = {
        {{batch, length, heads, width}, {batch, rows, 1, width}, {batch, length, heads}}};
    auto inputs = normal_inputs("picks" + std::to_string(any_size(0, 1000)), shapes);
    if (one_of(3)) inputs[static_cast<std::size_t>(any_size(0, 2))].differentiable = false;
    return inputs;
  }
};

PickOptions any_pick_options(Index rows, Index tokens, Index first_position) {
  return {.scale = *rc::gen::element(Real{1}, Real{0.5}, Real{2}),
          .most = one_of(4) ? rows + any_size(0, 3) : any_size(1, 20),
          .tokens = tokens,
          .first_position = first_position,
          .window = one_of(3) ? any_size(1, 90) : 0};
}

// Sizes of several tiles of rows and queries; one query that comes after many tokens; blocks longer
// than the text; fewer rows than there are blocks, and more.
PickCase any_pick_case() {
  const Index length = one_of(4) ? 1 : any_size(2, 150);
  const Index first = one_of(2) ? 0 : any_size(1, length == 1 ? 200 : 20);
  const Index tokens = one_of(2) ? 1 : one_of(4) ? any_size(5, 80) : any_size(2, 4);
  const Index spare = one_of(4) ? 70 : any_size(-2, 2);
  const Index rows = one_of(5) ? any_size(1, 5) : (first + length) / tokens + spare;
  return {.batch = any_size(1, 3),
          .length = length,
          .rows = std::max<Index>(1, rows),
          .heads = one_of(4) ? any_size(6, 32) : any_size(1, 5),
          .width = any_size(1, 6),
          .options = any_pick_options(std::max<Index>(1, rows), tokens, first)};
}

struct EvaluatedPicks {
  OpEvaluation scores;
  RowLists rows;
};

EvaluatedPicks evaluate_picks(Picker pick, const PickOptions& options,
                              const std::vector<CheckedInput>& inputs) {
  EvaluatedPicks result;
  const auto scores = [&](Tape&, Inputs x) {
    const Picks picks = pick(x[0], x[1], x[2], options);
    result.rows = lists_of(picks);
    return picks.scores;
  };
  result.scores = evaluate(scores, inputs);
  return result;
}

void agree(const EvaluatedPicks& fused, const EvaluatedPicks& composed) {
  RC_ASSERT(fused.rows == composed.rows);
  const double error = difference(fused.scores, composed.scores);
  RC_LOG() << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

void picks_agree(const PickOptions& options, const std::vector<CheckedInput>& inputs) {
  const EvaluatedPicks composed = evaluate_picks(composed_pick_rows, options, inputs);
  agree(evaluate_picks(fused_picks, options, inputs), composed);
  const OnOneThread here;  // backward has one piece of scratch memory then
  agree(evaluate_picks(fused_picks, options, inputs), composed);
}

TEST(ComposedPicking, PickRows) {
  EXPECT_TRUE(rc::check([] {
    const PickCase sizes = any_pick_case();
    picks_agree(sizes.options, sizes.inputs());
  }));
}

// Small integers: all sums are exact, and many scores are equal or products 0.
TEST(ComposedPicking, PickRowsOfEqualScores) {
  EXPECT_TRUE(rc::check([] {
    const PickCase sizes = any_pick_case();
    std::vector<CheckedInput> inputs = sizes.inputs();
    for (CheckedInput& input : inputs) {
      for (Real& x : input.values) x = std::round(x);
    }
    picks_agree(sizes.options, inputs);
  }));
}

// Two choices with the same inputs: their gradients are added.
TEST(ComposedPicking, PickRowsTwice) {
  EXPECT_TRUE(rc::check([] {
    const PickCase sizes = any_pick_case();
    const PickOptions other = any_pick_options(sizes.rows, any_size(1, 3), any_size(0, 9));
    const auto both = [&](Picker pick) {
      return [&, pick](Tape&, Inputs x) {
        return concat(pick(x[0], x[1], x[2], sizes.options).scores,
                      pick(x[0], x[1], x[2], other).scores);
      };
    };
    const auto inputs = sizes.inputs();
    RC_ASSERT(difference(evaluate(both(fused_picks), inputs),
                         evaluate(both(composed_pick_rows), inputs)) < kComposedTolerance);
  }));
}

// A cache that holds the last tokens or all: rows are those of its tokens, in order.
TEST(ComposedPicking, PickRowsOfACache) {
  EXPECT_TRUE(rc::check([] {
    const Index capacity = any_size(1, 150), written = any_size(1, 2 * capacity);
    const Index held = std::min(written, capacity), batch = any_size(1, 3), width = any_size(1, 6);
    const Index length = written > capacity ? 1 : any_size(1, written), heads = any_size(1, 5);
    const PickOptions options = any_pick_options(held, 1, written - length);
    const std::array<Shape, 3> shapes = {
        {{batch, length, heads, width}, {batch, held, 1, width}, {batch, length, heads}}};
    Tape tape;
    std::vector<Var> x;
    for (const auto& input : normal_inputs("cache" + std::to_string(any_size(0, 1000)), shapes))
      x.push_back(tape.constant(input.shape, input.values));
    RowCache cache(batch, 1, width, capacity, CacheType::real);
    for (Index token = 0; token < written; ++token) {
      // Tokens that later ones overwrite have the keys of others.
      const Index row = (token + held - written % held) % held;
      for (Index b = 0; b < batch; ++b)
        cache.write(b, token, x[1].value().data() + (b * held + row) * width);
    }
    const Picks fused = pick_rows(x[0], Rows(cache, written), x[2], options);
    const Picks composed = composed_pick_rows(x[0], x[1], x[2], options);
    agree({{copy(fused.scores.value()), {}}, lists_of(fused)},
          {{copy(composed.scores.value()), {}}, lists_of(composed)});
  }));
}

// Weights of the listed rows, of which some are 0, as all of one query in eight are.
std::vector<Real> any_picked_weights(const RowLists& rows, Index most) {
  const auto seed = static_cast<std::uint32_t>(any_size(0, 1000));
  std::vector<Real> weights = normal_values("picked weights", seed, std::ssize(rows));
  for (Index i = 0; i < std::ssize(rows); ++i) {
    Real& weight = weights[static_cast<std::size_t>(i)];
    const bool none = rows[static_cast<std::size_t>(i)] < 0 || i / most % 8 == 5;
    weight = none ? 0 : std::max(Real{0}, weight + Real{1});
  }
  return weights;
}

TEST(ComposedPicking, IndexLoss) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = {any_size(1, 3), any_size(1, 40), any_size(1, 12)};
    const Index most = shape.last();
    RowLists rows;
    for (Index i = 0; i < shape.rows(); ++i) {
      const Index count = any_size(0, most);
      for (Index j = 0; j < most; ++j)
        rows.push_back(j < count ? static_cast<std::int32_t>(2 * j) : -1);
    }
    const std::vector<Real> weights = any_picked_weights(rows, most);
    auto inputs =
        normal_inputs("loss" + std::to_string(any_size(0, 1000)), std::array<Shape, 1>{shape});
    const Real spread = *rc::gen::element(Real{1}, Real{20});
    for (Real& score : inputs[0].values) score *= spread;
    const auto of = [&](const auto& loss) {
      return [&, loss](Tape&, Inputs x) {
        return loss({x[0], {rows.data(), most}}, weights.data());
      };
    };
    RC_ASSERT(difference(evaluate(of(index_loss), inputs),
                         evaluate(of(composed_index_loss), inputs)) < kComposedTolerance);
  }));
}

// Loss of rows that an indexer picked. A second reader of their scores adds its gradient.
TEST(ComposedPicking, IndexLossOfPickedRows) {
  EXPECT_TRUE(rc::check([] {
    PickCase sizes = any_pick_case();
    sizes.length = std::min<Index>(sizes.length, 40);
    const auto inputs = sizes.inputs();
    const RowLists rows = evaluate_picks(composed_pick_rows, sizes.options, inputs).rows;
    const std::vector<Real> weights = any_picked_weights(rows, sizes.options.most);
    const auto of = [&](Picker pick, const auto& loss) {
      return [&, pick, loss](Tape&, Inputs x) {
        const Picks picks = pick(x[0], x[1], x[2], sizes.options);
        const Var first_reader = loss(picks, weights.data());
        return first_reader + sum(picks.scores);
      };
    };
    RC_ASSERT(difference(evaluate(of(fused_picks, index_loss), inputs),
                         evaluate(of(composed_pick_rows, composed_index_loss), inputs)) <
              kComposedTolerance);
  }));
}

}  // namespace
}  // namespace headcount
