// programs: autograd gradcheck in_double
#include <memory>

#include "autograd/op_cases.h"

namespace headcount {

namespace {

using Inputs = std::span<const Var>;

// No product of a query and a key near 0, so that no step of a difference quotient passes the kink:
// every third key is negative.
void make_index_inputs(std::vector<CheckedInput>& inputs) {
  for (Real& q : inputs[0].values) q = 1 + q / 500;
  const Shape& keys = inputs[1].shape;
  for (Index i = 0; i < keys.size(); ++i) {
    Real& k = inputs[1].values[static_cast<std::size_t>(i)];
    k = (i / keys[3] % 3 == 1 ? -1 : 1) * (1 + k / 500);
  }
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
}

// Queries pick all rows that they see, so that no step of a difference quotient changes a choice.
void add_pick_rows_cases(CaseList& cases) {
  const Index length = cases.pick(7, 150), rows = cases.pick(5, 130), width = cases.pick(3, 20);
  for (const Index heads : {Index{1}, Index{3}}) {
    OpCase& added = cases.add(
        std::to_string(heads) + " heads",
        {{2, length, heads, width}, {2, rows, 1, width}, {2, length, heads}}, [=](Tape&, Inputs x) {
          return pick_rows(x[0], x[1], x[2], Real{0.7}, {.most = rows, .first_position = 2}).scores;
        });
    make_index_inputs(added.inputs);
  }
  OpCase& one =
      cases.add("one tensor as queries and keys", {{2, length, 1, width}, {2, length, 1}},
                [=](Tape&, Inputs x) {
                  return pick_rows(x[0], x[0], x[1], Real{0.7}, {.most = length + 1}).scores;
                });
  for (Real& q : one.inputs[0].values) q = 1 + q / 500;
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
    return index_loss({{rows->data(), kMost, weights->data()}, x[0]});
  });
}

}  // namespace headcount
