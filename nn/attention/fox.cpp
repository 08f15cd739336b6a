#include "nn/attention/attention.h"

/// Forgetting attention (Lin et al., "Forgetting transformer: softmax attention with a forget
/// gate", 2025): grouped-query attention without positions. Every token has a forget gate f in (0,
/// 1) for each query head, by which it weakens what the head reads of all tokens before it:
///   log f = -softplus(-(f_proj x)),  score of query i and key j = q_i k_j / sqrt(d) + sum of log f
///   over tokens j + 1 .. i
/// With `qk-norm` an RMSNorm per head normalises q and k.
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], f_proj [H, dim] with a bias, o_proj
/// [dim, H d]; q_norm [H d] and k_norm [G d].
namespace headcount {

namespace {

struct Own {
  Index kv_heads = 0;
  bool qk_norm = false;
};

constexpr Field<Own> kFields[] = {
    kKvHeadsField<Own>.with({.derived = "heads"}),
    on_off<&Own::qk_norm>("qk-norm", "RMSNorm with weights for each head of q and k"),
};

class ForgettingAttention : public Attention {
 public:
  ForgettingAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, 0),
        q_proj_(weights.get<Linear>("q_proj")),
        k_proj_(weights.find<Linear>("k_proj")),
        v_proj_(weights.find<Linear>("v_proj")),
        f_proj_(weights.find<Linear>("f_proj")),
        q_norm_(weights.find<Norm>("q_norm")),
        k_norm_(weights.find<Norm>("k_norm")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index heads = plan().heads, groups = plan().own<Own>().kv_heads;
    // Heads of a projection, normalised each where there is such a norm.
    const auto part = [&](std::string_view name, const Linear& projection,
                          const std::optional<Norm>& norm, Index of_heads) {
      Var h = projection(x);
      if (norm) h = merge_heads((*norm)(split_heads(h, of_heads)));
      return split_heads(convolved(name, h, memory), of_heads);
    };
    const Rows k = memory.keep(
        "k", [&] { return normalize_for_scores(part("k", *k_proj_, k_norm_, groups)); });
    const Rows v =
        memory.keep("v", [&] { return mixed_values(part("v", *v_proj_, {}, groups), memory); });
    const Rows gates = memory.keep(
        "gates", [&] { return split_heads(scale(softplus(scale((*f_proj_)(x), -1)), -1), heads); });
    const Var q = normalize_for_scores(part("q", q_proj_, q_norm_, heads));
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    o.log_gates = &gates;
    return output(x, attention(q, k, v, o));
  }

 private:
  Linear q_proj_;
  std::optional<Linear> k_proj_, v_proj_, f_proj_;  // none in a layer that shares
  std::optional<Norm> q_norm_, k_norm_;
};

AttentionDescription describe_layer(const AttentionPlan& c) {
  const Own& own = c.own<Own>();
  using Role = Projection::Role;
  const Index queries = c.heads * c.head_dim, keys = own.kv_heads * c.head_dim;
  AttentionForm form = {
      .projections =
          {Projection{"q_proj", c.dim, queries}.in_canon("q"),
           Projection{"k_proj", c.dim, keys, Role::to_cache}.in_canon("k"),
           Projection{"v_proj", c.dim, keys, Role::to_cache}.in_canon("v"),
           {.name = "f_proj", .in = c.dim, .out = c.heads, .role = Role::to_cache, .biased = true}},
      .key_width = c.head_dim,
      .value_width = c.head_dim};
  if (own.qk_norm) {
    form.projections.push_back(Projection::norm("q_norm", queries));
    form.projections.push_back(Projection::norm("k_norm", keys, Role::to_cache));
  }
  // A score has the sum of many log gates, whose roundings would add up.
  return {.keeps = {{"k", own.kv_heads, c.head_dim},
                    {"v", own.kv_heads, c.head_dim},
                    {.name = "gates", .heads = c.heads, .width = 1, .exact = true}},
          .forms = {std::move(form)}};
}

std::any resolve(const AttentionPlan& c, const Given& given) {
  const Own own = read_fields(kFields, given, {.kv_heads = c.heads});
  require_divisor("kv-heads", own.kv_heads, "heads", c.heads);
  return own;
}

}  // namespace

extern const AttentionKind kFox = {
    .name = "fox",
    .summary =
        "forgetting: grouped-query attention with a forget gate per token and head instead of "
        "positions",
    .numbers = {"kv-heads"},
    .rotates = false,
    .mixes_values = true,
    .norm_epsilon = 1e-5,  // as its authors have it
    .x_read_by = ReadBy::products,
    .own = own_fields<kFields>(),
    .resolve = resolve,
    .describe = describe_layer,
    .make = make_layer<ForgettingAttention>,
    .no_heads = "its scores fade with distance by gates of each token"};

}  // namespace headcount
