#include "nn/attention/attention.h"
#include "nn/attention/heads.h"
#include "nn/attention/kinds.h"

/// Grouped-query attention and its two ends: H query heads share G key/value heads. MHA is G = H
/// (Vaswani et al., 2017), MQA is G = 1 (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d].
///
/// MFA is MQA with wider heads, whose queries pass through a latent: q_a_proj [rank, dim],
/// q_a_layernorm [rank] and q_b_proj [H d, rank] (Hu et al., "Multi-matrix factorization
/// attention", 2024).
///
/// The last `rope-dim` elements of a head are rotated. With `tie-kv` one row is key and value:
/// kv_proj [G d, dim] in place of k_proj and v_proj. Its rotated part comes out of the sum rotated
/// by the keys' positions and is rotated back by the query's, so that it says how far away a token
/// is (Su, "S2", https://kexue.fm/archives/10907).
namespace headcount {

namespace {

struct GroupedSettings {
  Index kv_heads = 0;
  Index q_rank = 0;  // of MFA
  Index rope_dim = 0;
  bool tie_kv = false;
};

const GroupedSettings& grouped(const AttentionPlan& c) { return c.own<GroupedSettings>(); }

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, grouped(c).rope_dim),
        q_proj_(weights),
        k_proj_(weights.find_linear(grouped(c).tie_kv ? "kv_proj" : "k_proj")),
        v_proj_(weights.find_linear("v_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index groups = grouped(plan()).kv_heads;
    const AttentionOptions o = options(plan().head_dim, memory);
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const auto queries = [&] { return prepare(split_heads(q_proj_(x), plan().heads)); };
    const auto keys = [&] { return split_heads((*k_proj_)(x), groups); };
    if (grouped(plan()).tie_kv) {
      const Rows kv = memory.keep("kv", [&] { return rotate(keys(), memory); });
      const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
      return output(x, rotate(attention(queries(), k, kv, o), memory, true));
    }
    const Rows k = memory.keep("k", [&] { return prepare(keys()); });
    const Rows v = memory.keep("v", [&] { return split_heads((*v_proj_)(x), groups); });
    return output(x, attention(queries(), k, v, o));
  }

 private:
  QueryProjection q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // or one kv_proj; none in a layer that shares
};

AttentionDescription describe_grouped(const AttentionPlan& c) {
  const Index groups = grouped(c).kv_heads, width = groups * c.head_dim;
  AttentionDescription description;
  std::vector<Projection> projections =
      QueryProjection::declare(c.dim, grouped(c).q_rank, c.heads * c.head_dim, true);
  const auto add = [&](const std::string& name) {
    description.keeps.push_back({name, groups, c.head_dim});
    projections.push_back(Projection::keeping(name + "_proj", c.dim, width));
  };
  if (grouped(c).tie_kv) {
    add("kv");
  } else {
    add("k");
    add("v");
  }
  description.forms = {{.name = "",
                        .projections = std::move(projections),
                        .key_width = c.head_dim,
                        .value_width = c.head_dim}};
  return description;
}

AttentionHeads grouped_to_heads(const AttentionPlan& c, const LayerMatrices& weights) {
  const GroupedSettings& own = grouped(c);
  AttentionHeads heads = {.dim = c.dim,
                          .heads = c.heads,
                          .key_width = c.head_dim,
                          .value_width = c.head_dim,
                          .q = queries(weights, own.q_rank, true),
                          .speeds = rotary_speeds(c, own.rope_dim)};
  if (c.output_projection) heads.o = weights.get("o_proj");
  heads.q = to_halves(heads.q, c.head_dim, heads.rotated(), c);
  require_setting(!own.tie_kv || heads.rotated() == 0,
                  "`tie-kv` on rotates its values by position, which no other attention does");
  if (c.shares()) return heads;
  const auto of_groups = [&](const std::string& name) {
    return repeated_blocks(weights.of_z(own.tie_kv ? "kv_proj" : name), c.head_dim,
                           c.heads / own.kv_heads);
  };
  heads.k = to_halves(of_groups("k_proj"), c.head_dim, heads.rotated(), c);
  heads.v = of_groups("v_proj");
  return heads;
}

// A key/value head is the mean of those of its group.
MadeLayer mean_of_groups(const AttentionPlan& c, const AttentionHeads& heads) {
  const Index count = c.heads / grouped(c).kv_heads, width = c.head_dim;
  require_width("what is rotated of a head, `rope-dim`,", c.rotary ? grouped(c).rope_dim : 0,
                heads.rotated());
  MadeLayer made{.of_z = {}, .others = {}, .heads = heads};
  make_queries(made, from_halves(heads.q, width, heads.rotated(), c), grouped(c).q_rank, true);
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

void require_tied(const AttentionPlan& c) {
  const auto require = [](bool fits, const std::string& why) {
    require_setting(fits, "`tie-kv` on: heads cannot be made so " + why);
  };
  require(!c.shares(), "with share, where each layer would have to tell keys from values");
  require(!c.gate, "with `gate` on, which acts on the single numbers of values");
  require(c.output_projection, "without `output-projection`, which tells values from keys");
  require(c.score_scale.kind != ScoreScale::Kind::qk_norm,
          "with `score-scale` qk-norm, which changes what values would be too");
  require(!c.rotary || grouped(c).rope_dim < c.head_dim,
          "where all of a head is rotated by position and nothing is left for values; give a "
          "`rope-dim` of less than " +
              std::to_string(c.head_dim));
  const Index plain = c.head_dim - (c.rotary ? grouped(c).rope_dim : 0);
  require(plain <= c.dim, "with " + std::to_string(plain) +
                              " numbers without a position, more than the model's width, " +
                              std::to_string(c.dim));
}

// One row c of each group is key and value: [k_i; v_i] = [B_i; C_i] c for the heads i of the group,
// as nearly as so few numbers can. B_i goes into the queries and C_i into the output. What is
// rotated by position of a key is the mean of the heads' and no value.
MadeLayer tied(const AttentionPlan& c, const AttentionHeads& heads, RotaryPairs which) {
  require_tied(c);
  const Index rotated = c.rotary ? grouped(c).rope_dim : 0, width = c.head_dim,
              plain = width - rotated;
  const Index count = c.heads / grouped(c).kv_heads;
  const HeadRows rows = rows_for_rotary_part(heads, rotated, which);
  const DoubleMatrix plain_k = take_rows(heads.k, width, rows.others),
                     plain_q = take_rows(heads.q, width, rows.others),
                     rotated_q = take_rows(heads.q, width, rows.rotated),
                     rotated_k =
                         mean_of_blocks(take_rows(heads.k, width, rows.rotated), rotated, count);
  DoubleMatrix q, kv, keys, values, outputs;  // outputs is o transposed
  for (Index group = 0; group < grouped(c).kv_heads; ++group) {
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
  MadeLayer made{.of_z = {}, .others = {}, .heads = heads};
  make_queries(made, from_halves(q, width, rotated, c), grouped(c).q_rank, true);
  made.of_z["kv_proj"] = from_halves(kv, width, rotated, c);
  made.others["o_proj"] = transposed(outputs);
  replace_keys(made.heads, rows, keys, rotary_speeds(c, rotated));
  made.heads.v = values;
  return made;
}

MadeLayer grouped_of_heads(const AttentionPlan& c, const AttentionHeads& heads,
                           const ConversionOptions& options) {
  require_width("the width of a head, `head-dim`,", c.head_dim, heads.key_width);
  require_width("the width of a head, `head-dim`,", c.head_dim, heads.value_width);
  return grouped(c).tie_kv ? tied(c, heads, options.rotary_pairs) : mean_of_groups(c, heads);
}

using Own = GroupedSettings;

constexpr Traits kGroupedDerived = {.derived = true, .conversion = InConversion::open};
constexpr auto kRopeDim =
    whole<&Own::rope_dim>("rope-dim", "so much of a head's width has position; default head-dim", 0)
        .with(kGroupedDerived);
constexpr auto kTieKv = on_off<&Own::tie_kv>("tie-kv", "one row is key and value")
                            .with({.conversion = InConversion::open});

constexpr Field<Own> kGroupedFields[] = {kRopeDim, kTieKv};
constexpr Field<Own> kGqaFields[] = {
    whole<&Own::kv_heads>("kv-heads", "key/value heads; default heads / 2", 1)
        .with(kGroupedDerived),
    kRopeDim, kTieKv};
constexpr Field<Own> kMfaFields[] = {
    whole<&Own::q_rank>("q-rank", "width of the query latent; default dim / 2", 0)
        .with(kGroupedDerived),
    kRopeDim, kTieKv};

Own resolve_heads(const AttentionPlan& c, const Given& given, Index kv_heads, Index q_rank = 0) {
  if (!given.has("rope-dim")) require_rotary_heads(c);
  const Own own = read_fields(kGroupedFields, given,
                              {.kv_heads = kv_heads, .q_rank = q_rank, .rope_dim = c.head_dim});
  require_rotary_part(c, own.rope_dim);
  return own;
}

std::any resolve_mha(const AttentionPlan& c, const Given& given) {
  return resolve_heads(c, given, c.heads);
}

std::any resolve_mqa(const AttentionPlan& c, const Given& given) {
  return resolve_heads(c, given, 1);
}

std::any resolve_gqa(const AttentionPlan& c, const Given& given) {
  return resolve_heads(c, given, resolved_kv_heads(c, given));
}

std::any resolve_mfa(const AttentionPlan& c, const Given& given) {
  return resolve_heads(c, given, 1, given.get("q-rank", std::max<Index>(1, c.dim / 2)));
}

}  // namespace

const AttentionKind kMha = {.name = "mha",
                            .summary = "multi-head: each query head has its own keys and values",
                            .architecture = "llama",
                            .own = own_fields<kGroupedFields>(),
                            .resolve = resolve_mha,
                            .describe = describe_grouped,
                            .make = make_layer<GroupedAttention>,
                            .to_heads = grouped_to_heads,
                            .of_heads = grouped_of_heads};
const AttentionKind kMqa = {.name = "mqa",
                            .summary = "multi-query: all query heads share one key/value head",
                            .architecture = "llama",
                            .own = own_fields<kGroupedFields>(),
                            .resolve = resolve_mqa,
                            .describe = describe_grouped,
                            .make = make_layer<GroupedAttention>,
                            .to_heads = grouped_to_heads,
                            .of_heads = grouped_of_heads};
const AttentionKind kGqa = {
    .name = "gqa",
    .summary = "grouped-query: `kv-heads` key/value heads, each for a group of query heads",
    .architecture = "llama",
    .numbers = {"kv-heads"},
    .own = own_fields<kGqaFields>(),
    .resolve = resolve_gqa,
    .describe = describe_grouped,
    .make = make_layer<GroupedAttention>,
    .to_heads = grouped_to_heads,
    .of_heads = grouped_of_heads};
const AttentionKind kMfa = {
    .name = "mfa",
    .summary =
        "multi-matrix factorization: one key/value head of `head-dim`, default 2 dim / heads, "
        "queries from a latent of `q-rank`",
    .head_dim_factor = 2,
    .numbers = {"head-dim"},
    .own = own_fields<kMfaFields>(),
    .resolve = resolve_mfa,
    .describe = describe_grouped,
    .make = make_layer<GroupedAttention>,
    .to_heads = grouped_to_heads,
    .of_heads = grouped_of_heads};

}  // namespace headcount
