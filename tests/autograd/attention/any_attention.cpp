// programs: autograd gradcheck in_double
#include "autograd/attention/any_attention.h"

#include <algorithm>
#include <cmath>

#include "autograd/evaluation.h"

namespace headcount {

namespace {

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

// Lists for each half of the heads, or for each head, and of blocks. No number is drawn for them,
// so that cases without picks stay as they are: a list loses its first rows for the later heads.
void AnyAttention::gather_blocks(Index queries, Index heads) {
  lists.lists = heads % 2 == 0 ? 2 : heads;
  lists.block = 1 + most % 3;
  lists.missing = most / 2 % lists.block;
  std::vector<std::int32_t> all;
  for (Index i = 0; i < queries * lists.lists; ++i) {
    const auto first = picked.begin() + i / lists.lists * most;
    std::vector<std::int32_t> list;
    for (Index j = 0; j < most; ++j) {
      const auto of_row = static_cast<std::int32_t>((first[j] + lists.missing) / lists.block);
      if (first[j] >= 0 && (list.empty() || list.back() < of_row)) list.push_back(of_row);
    }
    if (i % lists.lists > 0 && list.size() > 1) list.erase(list.begin());
    list.resize(static_cast<std::size_t>(most), -1);
    all.insert(all.end(), list.begin(), list.end());
  }
  picked = std::move(all);
}

AnyAttention::AnyAttention(const Draw& any, Index shortest, Index longest,
                           const std::string& seed) {
  AttentionOptions& o = options;
  const auto one_of = [&](Index n) { return any(1, n) == n; };
  const auto is = [&](bool chosen, const std::string& words) {
    if (chosen) name += words + ", ";
    return chosen;
  };
  o.scale = static_cast<Real>(any(5, 12)) / (one_of(8) ? -10 : 10);
  o.causal = !is(one_of(4), "all keys");
  o.row_scale = static_cast<RowScale>(any(0, 2));
  is(o.row_scale != RowScale::one, "row scale " + std::to_string(static_cast<int>(o.row_scale)));
  const bool normed = o.row_scale == RowScale::inverse_norm;
  if (is(!normed && one_of(3), "cap")) o.cap = static_cast<Real>(any(5, 30)) / 10;
  const bool picks = is(o.causal && one_of(4), "picks"), drops = is(one_of(4), "dropout");
  if (is(o.causal && one_of(4), "pooled")) block = any(1, 7);
  const bool forgets = is(block == 0 && one_of(3), "gates"), has_sinks = is(one_of(3), "sinks");
  const bool masks = is(!picks && block == 0 && one_of(2), "mask");

  // Whole vectors of keys, where dropout is that of the composition.
  Index length = any(shortest, longest),
        blocks = block > 0 ? std::max<Index>(1, length / block) : 0;
  if (drops) {
    o.dropout = Real{0.3};
    length = (length + 7) / 8 * 8;
    blocks = (blocks + 7) / 8 * 8;
  }
  const Index widest = longest < 10 ? 2 : 3;  // few elements where they are perturbed one by one
  const Index batch = any(1, 2), queries = any(1, o.causal || forgets ? length : longest);
  const Index kv_heads = any(1, widest), heads = kv_heads * any(1, widest);
  std::vector<Shape> shapes = {{}};
  // A new input of which a part reads all columns, or some of them.
  const auto new_part = [&](Index rows, Index of_heads, Index width) {
    const Index before = one_of(4) ? any(0, 2) : 0, after = one_of(4) ? any(0, 2) : 0;
    shapes.push_back({batch, rows, of_heads, before + width + after});
    return Part{shapes.size() - 1, before, width};
  };
  // Columns that another part reads, or others beside them.
  const auto same_input = [&](const Part& part) {
    const Index all = shapes[part.input].last(), width = any(1, all);
    return Part{part.input, any(0, all - width), width};
  };
  keys = {new_part(length, kv_heads, any(1, widest * widest))};
  if (is(block == 0 && one_of(3), "keys in parts")) {
    for (Index more = any(1, 2); more > 0; --more) {
      const Index choice = any(0, 3);
      keys.push_back(choice == 3 ? same_input(keys[0])
                                 : new_part(length,
                                            choice == 0   ? 1
                                            : choice == 1 ? kv_heads
                                                          : heads,
                                            any(1, widest)));
    }
  }
  values = is(one_of(4), "values of the keys' rows")
               ? same_input(keys[0])
               : new_part(length, kv_heads, any(1, widest * widest));
  Index width = 0;
  for (const Part& part : keys) width += part.width;
  shapes[0] = {batch, queries, heads, width};
  if (is(o.causal && one_of(2), "window")) o.window = any(1, length);
  if (masks) mask = any_mask(any, batch, length);
  if (picks) {
    most = any(1, 6);
    picked = any_picks(any, batch, queries, length, length, 1, most, o.window);
    if (length % 2 == 0) gather_blocks(batch * queries, heads);
  }
  if (block > 0) {
    const Index pooled_heads = one_of(2) ? 1 : heads;
    pooled_keys = new_part(blocks, pooled_heads, width);
    pooled_values = values.width <= width && one_of(2)
                        ? Part{pooled_keys.input, pooled_keys.first, values.width}
                        : new_part(blocks, pooled_heads, values.width);
    if (is(one_of(2), "picked blocks")) {
      most_blocks = any(1, 6);
      picked_blocks = any_picks(any, batch, queries, length, blocks, block, most_blocks, 0);
    }
  }
  const std::size_t of_scores = shapes.size();
  if (forgets) {
    gates = shapes.size();
    shapes.push_back({batch, length, heads, 1});
  }
  if (has_sinks) {
    sinks = shapes.size();
    shapes.push_back({heads});
  }
  inputs = normal_inputs(seed, shapes);
  for (std::size_t i = 0; normed && i < of_scores; ++i) {
    // Scores well above 0: a row of zeros has no norm to divide by.
    for (Real& x : inputs[i].values) x = Real{0.5} + std::abs(x);
  }
  if (forgets) {
    for (Real& gate : inputs[gates].values) gate = Real{-0.3} * std::abs(gate);
  }
}

}  // namespace headcount
