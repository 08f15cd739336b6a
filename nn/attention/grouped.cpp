#include "nn/attention/attention.h"
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
/// kv_proj [G d, dim] in place of k_proj and v_proj. Its rotated part comes out of the sum turned
/// by the keys' positions and is turned back by the query's, so that it says how far away a token
/// is (Su, "S2", https://kexue.fm/archives/10907).
namespace headcount {

namespace {

struct GroupedSettings {
  Index kv_heads = kUnset;
  Index q_rank = kUnset;  // of MFA; otherwise 0
  Index rope_dim = kUnset;
  bool tie_kv = false;
};

const GroupedSettings& of(const AttentionConfig& c) { return c.own<GroupedSettings>(); }

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionConfig& c, const LayerWeights& weights)
      : Attention(c, weights, of(c).rope_dim),
        q_proj_(weights),
        k_proj_(weights.linear(of(c).tie_kv ? "kv_proj" : "k_proj")),
        v_proj_(weights.find_linear("v_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index groups = of(config()).kv_heads;
    const AttentionOptions o = options(config().head_dim, memory);
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const auto queries = [&] { return prepare(split_heads(q_proj_(x), config().heads)); };
    const Var own_keys = split_heads(k_proj_(x), groups);
    if (!v_proj_) {
      const Rows kv = memory.keep("kv", rotate(own_keys, memory));
      const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
      return output(x, rotate(attention(queries(), k, kv, o), memory, true));
    }
    const Rows k = memory.keep("k", prepare(own_keys));
    const Rows v = memory.keep("v", split_heads((*v_proj_)(x), groups));
    return output(x, attention(queries(), k, v, o));
  }

 private:
  QueryProjection q_proj_;
  Linear k_proj_;  // or kv_proj
  std::optional<Linear> v_proj_;
};

std::unique_ptr<Attention> make(const AttentionConfig& config, const LayerWeights& weights) {
  return std::make_unique<GroupedAttention>(config, weights);
}

AttentionDescription describe_grouped(const AttentionConfig& c) {
  const Index groups = of(c).kv_heads, width = groups * c.head_dim;
  AttentionDescription description;
  std::vector<Projection> projections =
      QueryProjection::declare(c.dim, of(c).q_rank, c.heads * c.head_dim, true);
  const auto add = [&](const std::string& name) {
    description.keeps.push_back({name, groups, c.head_dim});
    projections.push_back({name + "_proj", c.dim, width});
  };
  if (of(c).tie_kv) {
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

void grouped_settings(AttentionConfig& c, Settings& s) {
  GroupedSettings& own = c.own<GroupedSettings>();
  s.integer("rope-dim", "so much of a head's width has position; default head-dim", own.rope_dim,
            0);
  s.on_off("tie-kv", "one row is key and value", own.tie_kv);
}

void resolve_heads(AttentionConfig& c, Index q_rank = 0) {
  c.own<GroupedSettings>().q_rank = q_rank;
  Index& turned = c.own<GroupedSettings>().rope_dim;
  if (turned == kUnset) {
    resolve_rotary_heads(c);
    turned = c.head_dim;
  }
  resolve_rotary_part(c, turned);
}

void resolve_mha(AttentionConfig& c) {
  c.own<GroupedSettings>().kv_heads = c.heads;
  resolve_heads(c);
}

void resolve_mqa(AttentionConfig& c) {
  c.own<GroupedSettings>().kv_heads = 1;
  resolve_heads(c);
}

void mfa_settings(AttentionConfig& c, Settings& s) {
  s.integer("head-dim", "of the one key/value head; default 2 dim / heads", c.head_dim, 1);
  s.integer("q-rank", "width of the query latent; default dim / 2", c.own<GroupedSettings>().q_rank,
            0);
  grouped_settings(c, s);
}

void resolve_mfa(AttentionConfig& c) {
  GroupedSettings& own = c.own<GroupedSettings>();
  own.kv_heads = 1;
  resolve_heads(c, own.q_rank == kUnset ? std::max<Index>(1, c.dim / 2) : own.q_rank);
}

void gqa_settings(AttentionConfig& c, Settings& s) {
  s.integer("kv-heads", "key/value heads; default heads / 2", c.own<GroupedSettings>().kv_heads, 1);
  grouped_settings(c, s);
}

void resolve_gqa(AttentionConfig& c) {
  resolve_kv_heads(c, c.own<GroupedSettings>().kv_heads);
  resolve_heads(c);
}

}  // namespace

const AttentionKind kMha = {.name = "mha",
                            .summary = "multi-head: each query head has its own keys and values",
                            .architecture = "llama",
                            .settings = grouped_settings,
                            .resolve = resolve_mha,
                            .describe = describe_grouped,
                            .make = make};
const AttentionKind kMqa = {.name = "mqa",
                            .summary = "multi-query: all query heads share one key/value head",
                            .architecture = "llama",
                            .settings = grouped_settings,
                            .resolve = resolve_mqa,
                            .describe = describe_grouped,
                            .make = make};
const AttentionKind kGqa = {
    .name = "gqa",
    .summary = "grouped-query: `kv-heads` key/value heads, each for a group of query heads",
    .architecture = "llama",
    .spec_numbers = 1,
    .settings = gqa_settings,
    .resolve = resolve_gqa,
    .describe = describe_grouped,
    .make = make};
const AttentionKind kMfa = {
    .name = "mfa",
    .summary =
        "multi-matrix factorization: one wide key/value head of `head-dim`, queries from a "
        "latent of `q-rank`",
    .head_dim_factor = 2,
    .spec_numbers = 1,
    .settings = mfa_settings,
    .resolve = resolve_mfa,
    .describe = describe_grouped,
    .make = make};

}  // namespace headcount
