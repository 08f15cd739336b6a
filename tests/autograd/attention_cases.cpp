// programs: autograd gradcheck in_double
#include <array>
#include <memory>
#include <random>

#include "autograd/any_attention.h"
#include "autograd/evaluation.h"
#include "autograd/op_cases.h"

namespace headcount {

namespace {

using Inputs = std::span<const Var>;

// Keys in parts and rows as columns of wider ones, each with heads of its own: as MLA, GTA and tied
// keys and values read them.
void add_views(CaseList& cases, Index length) {
  const AttentionOptions causal = {.scale = Real{0.7}};
  cases.add("keys in two parts, the second shared by all heads",
            {{2, length, 4, 5}, {2, length, 4, 3}, {2, length, 1, 2}, {2, length, 4, 3}},
            [=](Tape&, Inputs x) {
              return attention(x[0], std::array{Rows(x[1]), Rows(x[2])}, x[3], causal);
            });
  cases.add("keys and values as columns of one value, and a shared part",
            {{2, length, 4, 5}, {2, length, 4, 7}, {2, length, 1, 2}}, [=](Tape&, Inputs x) {
              const Rows both(x[1]);
              return attention(x[0], std::array{both.columns(0, 3), Rows(x[2])}, both.columns(3, 4),
                               causal);
            });
  cases.add(
      "columns that overlap, of grouped heads", {{2, length, 4, 5}, {2, length, 2, 4}},
      [=](Tape&, Inputs x) {
        const Rows state(x[1]);
        return attention(x[0], std::array{state.columns(0, 2), state.columns(1, 3)}, state, causal);
      });
  cases.add("columns of which some are not read", {{2, length, 2, 2}, {2, length, 2, 6}},
            [=](Tape&, Inputs x) {
              return attention(x[0], Rows(x[1]).columns(1, 2), Rows(x[1]).columns(4, 1), causal);
            });
  cases.add("parts of as many heads as queries, a group, and one",
            {{2, length, 4, 4},
             {2, length, 4, 1},
             {2, length, 2, 2},
             {2, length, 1, 1},
             {2, length, 2, 3}},
            [=](Tape&, Inputs x) {
              AttentionOptions options = causal;
              options.row_scale = RowScale::inverse_norm;
              options.window = 3;
              return attention(x[0], std::array{Rows(x[1]), Rows(x[2]), Rows(x[3])}, x[4], options);
            });
}

// Lists of at most `most` of the rows that each query sees, the last `window` ones or all; -1
// follows.
std::vector<std::int32_t> any_picks(const Draw& any, Index batch, Index queries, Index keys,
                                    Index rows, Index tokens, Index most, Index window) {
  std::vector<std::int32_t> picked;
  for (Index i = 0; i < batch * queries; ++i) {
    const Index seen = std::min(rows, (keys - queries + i % queries + 1) / tokens);
    const Index least = window > 0 ? std::max<Index>(0, seen - window) : 0;
    const Index count = std::min(most, seen - least), first = any(least, seen - count);
    for (Index j = 0; j < most; ++j)
      picked.push_back(
          j >= count ? -1 : static_cast<std::int32_t>(j + 1 == count ? seen - 1 : first + j));
  }
  return picked;
}

// One key in so many is hidden, or padding hides the first ones; a query may see nothing.
std::vector<std::uint8_t> any_mask(const Draw& any, Index batch, Index keys) {
  const Index padding = any(0, 1) * any(0, keys), shown_of_8 = any(0, 8);
  std::vector<std::uint8_t> mask;
  for (Index i = 0; i < batch * keys; ++i)
    mask.push_back(i % keys >= padding && any(0, 7) < shown_of_8);
  return mask;
}

}  // namespace

AnyAttention any_attention(const Draw& any, Index shortest, Index longest,
                           const std::string& seed) {
  AnyAttention result;
  AttentionOptions& o = result.options;
  const auto one_of = [&](Index n) { return any(1, n) == n; };
  const auto is = [&](bool chosen, const std::string& words) {
    if (chosen) result.name += words + ", ";
    return chosen;
  };
  o.scale = static_cast<Real>(any(5, 12)) / (one_of(8) ? -10 : 10);
  o.causal = !is(one_of(4), "all keys");
  o.row_scale = static_cast<RowScale>(any(0, 2));
  is(o.row_scale != RowScale::one, "row scale " + std::to_string(static_cast<int>(o.row_scale)));
  const bool normed = o.row_scale == RowScale::inverse_norm;
  if (is(!normed && one_of(3), "cap")) o.cap = static_cast<Real>(any(5, 30)) / 10;
  const bool picks = is(o.causal && one_of(4), "picks"), drops = is(one_of(4), "dropout");
  if (is(o.causal && one_of(4), "pooled")) result.block = any(1, 7);
  result.gates = is(result.block == 0 && one_of(3), "gates");
  result.sinks = is(one_of(3), "sinks");
  const bool masks = is(!picks && result.block == 0 && one_of(2), "mask");

  // Whole vectors of keys, where dropout is that of the composition.
  Index keys = any(shortest, longest),
        blocks = result.block > 0 ? std::max<Index>(1, keys / result.block) : 0;
  if (drops) {
    o.dropout = Real{0.3};
    keys = (keys + 7) / 8 * 8;
    blocks = (blocks + 7) / 8 * 8;
  }
  const Index most = longest < 10 ? 2 : 3;  // few elements where they are perturbed one by one
  const Index batch = any(1, 2), queries = any(1, o.causal || result.gates ? keys : longest);
  const Index kv_heads = any(1, most), heads = kv_heads * any(1, most);
  const Index width = any(1, most * most), v = any(1, most * most);
  if (is(o.causal && one_of(2), "window")) o.window = any(1, keys);
  if (masks) result.mask = any_mask(any, batch, keys);
  if (picks) {
    result.most = any(1, 6);
    result.picked = any_picks(any, batch, queries, keys, keys, 1, result.most, o.window);
  }
  std::vector<Shape> shapes = {
      {batch, queries, heads, width}, {batch, keys, kv_heads, width}, {batch, keys, kv_heads, v}};
  if (result.block > 0) {
    const Index pooled_heads = one_of(2) ? 1 : heads;
    shapes.push_back({batch, blocks, pooled_heads, width});
    shapes.push_back({batch, blocks, pooled_heads, v});
    if (is(one_of(2), "picked blocks")) {
      result.most_blocks = any(1, 6);
      result.picked_blocks =
          any_picks(any, batch, queries, keys, blocks, result.block, result.most_blocks, 0);
    }
  }
  if (result.gates) shapes.push_back({batch, keys, heads, 1});
  if (result.sinks) shapes.push_back({heads});
  result.inputs = normal_inputs(seed, shapes);
  for (std::size_t i = 0; normed && i < (result.block > 0 ? 5U : 3U); ++i) {
    // Scores well above 0: a row of zeros has no norm to divide by.
    for (Real& x : result.inputs[i].values) x = Real{0.5} + std::abs(x);
  }
  if (result.gates) {
    for (Real& gate : result.inputs[result.inputs.size() - (result.sinks ? 2 : 1)].values)
      gate = Real{-0.3} * std::abs(gate);
  }
  return result;
}

// Large lengths span several tiles of 64 and end within one.
void add_attention_cases(CaseList& cases) {
  const Index length = cases.pick(4, 150);
  cases.add("one value for q, k and v", {{2, length, 3, 4}},
            [](Tape&, Inputs x) { return attention(x[0], x[0], x[0], {}); });
  cases.add("one value for k and v, grouped", {{2, length, 4, 3}, {2, length, 2, 3}},
            [](Tape&, Inputs x) { return attention(x[0], x[1], x[1], {.scale = Real{0.6}}); });
  cases.add("pooled rows, keys that are values",
            {{2, length, 4, 3}, {2, length, 1, 3}, {2, length / 2, 1, 3}}, [](Tape&, Inputs x) {
              AttentionOptions options = {.scale = Real{0.7}, .window = 2};
              options.pooled = {.keys = x[2], .values = x[2], .tokens = 2};
              return attention(x[0], x[1], x[1], options);
            });
  add_views(cases, length);
  std::mt19937 generator(5);
  const Draw any = [&](Index least, Index most) {
    return least + static_cast<Index>(generator() % static_cast<std::uint32_t>(most - least + 1));
  };
  for (int i = 0; i < cases.pick(80, 40); ++i) {
    const AnyAttention drawn =
        any_attention(any, cases.pick(1, 66), cases.pick(8, 150), std::to_string(i));
    cases.add(drawn.name + std::to_string(i), {}, drawn.with(fused_attention)).inputs =
        drawn.inputs;
  }
}

}  // namespace headcount
