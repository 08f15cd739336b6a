#include <cmath>
#include <memory>

#include "autograd/op_cases.h"

namespace headcount {

namespace {

using Inputs = std::span<const Var>;

// Scores far apart and no product of a query and a key near 0, so that no step of a difference
// quotient changes the choice or passes the kink: keys grow with their row, every third is
// negative, and heads have positive weights.
void make_pick_inputs(std::vector<CheckedInput>& inputs) {
  for (Real& q : inputs[0].values) q = 1 + q / 500;
  const Shape& keys = inputs[1].shape;
  for (Index i = 0; i < keys.size(); ++i) {
    const Index row = i / keys[3] % keys[1];
    const auto size = static_cast<Real>(row % 3 == 1 ? -1 - row : 1 + row);
    Real& k = inputs[1].values[static_cast<std::size_t>(i)];
    k = size * (1 + k / 500);
  }
  for (Real& weight : inputs[2].values) weight = Real{0.2} + std::abs(weight);
}

}  // namespace

void add_pool_tokens_cases(CaseList& cases) {
  const Index length = cases.pick(7, 60), width = cases.pick(3, 40);
  const auto add = [&](const std::string& name, Index tokens, Index block) {
    cases.add(name, {{2, tokens, width}, {2, tokens, width}, {block, width}},
              [](Tape&, Inputs x) { return *pool_tokens(x[0], x[1], x[2]); });
  };
  add("several blocks, the last one open", length, 3);
  add("one block", length, length);
  add("blocks of one token", length, 1);
  cases.add("one value as tokens and gates", {{2, length, width}, {3, width}},
            [](Tape&, Inputs x) { return *pool_tokens(x[0], x[0], x[1]); });
  for (const Index block : {Index{1}, Index{3}, length}) {
    cases.add("over two blocks of " + std::to_string(block),
              {{2, length, 2 * width}, {2, length, 2 * width}, {block, 2 * width}},
              [](Tape&, Inputs x) { return *pool_tokens(x[0], x[1], x[2], PoolOver::two_blocks); });
  }
}

void add_pick_rows_cases(CaseList& cases) {
  const Index length = cases.pick(7, 150), width = cases.pick(3, 20);
  const auto add = [&](const std::string& name, Index heads, const PickOptions& options) {
    OpCase& added = cases.add(
        name,
        {{2, length, heads, width}, {2, length / options.tokens, 1, width}, {2, length, heads}},
        [=](Tape&, Inputs x) { return pick_rows(x[0], x[1], x[2], options).scores; });
    make_pick_inputs(added.inputs);
  };
  add("two of the rows of one token", 3, {.scale = Real{0.7}, .most = 2});
  add("all rows of two tokens", 2, {.scale = Real{0.7}, .most = length, .tokens = 2});
  add("one row, one head", 1, {.scale = Real{0.7}, .most = 1, .tokens = 3});
  add("two of the rows of a window", 3, {.scale = Real{0.7}, .most = 2, .window = 3});
}

void add_index_loss_cases(CaseList& cases) {
  const Index length = cases.pick(4, 90);
  constexpr Index kMost = 5;
  const auto rows = std::make_shared<std::vector<std::int32_t>>();
  const auto weights = std::make_shared<std::vector<Real>>();
  for (Index i = 0; i < 2 * length * kMost; ++i) {
    const Index j = i % kMost, count = i / kMost % (kMost + 1);
    rows->push_back(j < count ? static_cast<std::int32_t>(2 * j) : -1);
    // The weights of one query are all 0.
    weights->push_back(j < count && i / kMost != 2 ? static_cast<Real>(1 + i * 7 % 11) / 20 : 0);
  }
  cases.add("queries with no row to five", {{2, length, kMost}}, [=](Tape&, Inputs x) {
    return index_loss({x[0], {rows->data(), kMost}}, weights->data());
  });
}

}  // namespace headcount
