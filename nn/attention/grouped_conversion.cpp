#include "nn/attention/grouped.h"

/// Conversion of grouped-query attention to and from heads.
namespace headcount {

namespace {

const GroupedSettings& own(const AttentionPlan& c) { return c.own<GroupedSettings>(); }

// Mean pooling: each KV head becomes the mean of its group (Ainslie et al., 2023).
MadeLayer mean_of_groups(const AttentionPlan& c, const AttentionHeads& heads) {
  const Index count = c.heads / own(c).kv_heads, width = c.head_dim;
  require_width("the rotated part of a head, `rope-dim`,", c.rotary ? own(c).rope_dim : 0,
                heads.rotated());
  MadeLayer made{.heads = heads};
  make_queries(made, from_halves(heads.q, width, heads.rotated(), c), {.rank = own(c).q_rank});
  if (c.output_projection) made.others["o_proj"] = heads.o;
  if (c.shares()) return made;
  const DoubleMatrix k = mean_of_blocks(heads.k, width, count),
                     v = mean_of_blocks(heads.v, width, count);
  made.of_z["k_proj"] = from_halves(k, width, heads.rotated(), c);
  made.of_z["v_proj"] = v;
  made.heads.k = repeated_blocks(k, width, count);
  made.heads.v = repeated_blocks(v, width, count);
  return made;
}

void require_tied(const AttentionPlan& c, Index plain) {
  const auto require = [](bool fits, const auto&... why) {
    require_setting(fits, "`tie-kv` on: heads cannot be converted ", why...);
  };
  require(!c.shares(), "with share, where each layer would have to tell keys from values");
  require(!c.gate, "with `gate` on, which acts on single numbers of values");
  require(c.output_projection, "without `output-projection`, which tells values from keys");
  require(c.score_scale.kind != ScoreScale::Kind::qk_norm,
          "with `score-scale` qk-norm, which would normalise values too");
  require(plain > 0,
          "if RoPE rotates whole heads and leaves nothing for values; give a `rope-dim` below ",
          c.head_dim);
  require(plain <= c.dim, "with ", plain,
          " unrotated dimensions per head, more than the model's width, ", c.dim);
}

// One row c of each group is key and value: [k_i; v_i] = [B_i; C_i] c for the heads i of the group,
// as nearly as a row of that width can. Queries take in B_i and the output projection C_i. The
// rotated part of a key is the mean over the group; values have none.
MadeLayer tied(const AttentionPlan& c, const AttentionHeads& heads, RotaryPairs which) {
  const Index rotated = c.rotary ? own(c).rope_dim : 0, width = c.head_dim, plain = width - rotated;
  require_tied(c, plain);
  const Index count = c.heads / own(c).kv_heads;
  const RotaryRows rows = rows_for_rotary_part(heads, rotated, which);
  const DoubleMatrix plain_k = take_rows(heads.k, width, rows.others),
                     plain_q = take_rows(heads.q, width, rows.others),
                     rotated_q = take_rows(heads.q, width, rows.rotated),
                     rotated_k =
                         mean_of_blocks(take_rows(heads.k, width, rows.rotated), rotated, count);
  DoubleMatrix q, kv, keys, values, outputs;  // outputs is o transposed
  for (Index group = 0; group < own(c).kv_heads; ++group) {
    const Index first = group * count;
    DoubleMatrix all = plain_k.part(first * plain, count * plain);
    all.append(heads.v.part(first * width, count * width));
    const Factors best = factors(all, plain);
    const DoubleMatrix rotated_row = rotated_k.part(group * rotated, rotated);
    kv.append(best.right);
    kv.append(rotated_row);
    for (Index i = 0; i < count; ++i) {
      const DoubleMatrix to_key = best.left.part(i * plain, plain),
                         to_value = best.left.part(count * plain + i * width, width);
      keys.append(product(to_key, best.right));
      keys.append(rotated_row);
      values.append(product(to_value, best.right));
      q.append(product(transposed(to_key), plain_q.part((first + i) * plain, plain)));
      q.append(rotated_q.part((first + i) * rotated, rotated));
      const DoubleMatrix of_head = heads.o.column_part((first + i) * width, width);
      outputs.append(transposed(zero_padded(product(of_head, to_value), width)));
    }
  }
  const Index biases = heads.o.columns - c.heads * width;
  outputs.append(transposed(heads.o.column_part(c.heads * width, biases)));
  MadeLayer made{.heads = heads};
  make_queries(made, from_halves(q, width, rotated, c), {.rank = own(c).q_rank});
  made.of_z["kv_proj"] = from_halves(kv, width, rotated, c);
  made.others["o_proj"] = transposed(outputs);
  replace_keys(made.heads, rows, keys, rotary_frequencies(c, rotated));
  made.heads.v = values;
  return made;
}

}  // namespace

AttentionHeads grouped_to_heads(const AttentionPlan& c, const LayerMatrices& weights) {
  AttentionHeads heads = {.dim = c.dim,
                          .heads = c.heads,
                          .key_width = c.head_dim,
                          .value_width = c.head_dim,
                          .q = queries(weights, {.rank = own(c).q_rank}),
                          .frequencies = rotary_frequencies(c, own(c).rope_dim)};
  if (c.output_projection) heads.o = weights.get("o_proj");
  heads.q = to_halves(heads.q, c.head_dim, heads.rotated(), c);
  require_setting(!own(c).tie_kv || heads.rotated() == 0,
                  "`tie-kv` on rotates values by position, which no other attention does");
  if (c.shares()) return heads;
  const auto of_groups = [&](const std::string& name) {
    return repeated_blocks(weights.of_z(own(c).tie_kv ? "kv_proj" : name), c.head_dim,
                           c.heads / own(c).kv_heads);
  };
  heads.k = to_halves(of_groups("k_proj"), c.head_dim, heads.rotated(), c);
  heads.v = of_groups("v_proj");
  return heads;
}

MadeLayer grouped_of_heads(const AttentionPlan& c, const AttentionHeads& heads,
                           const ConversionOptions& options) {
  require_setting(heads.key_width == heads.value_width, "keys of the model are ", heads.key_width,
                  " wide and its values ", heads.value_width, ": no `head-dim` suits both");
  require_width("the width of a head, `head-dim`,", c.head_dim, heads.key_width);
  return own(c).tie_kv ? tied(c, heads, options.rotary_pairs) : mean_of_groups(c, heads);
}

}  // namespace headcount
