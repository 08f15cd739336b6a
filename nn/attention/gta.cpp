#include "nn/attention/attention.h"

/// Grouped-tied attention (Zadouri, Strauss and Dao, "Hardware-efficient attention for fast
/// decoding", 2025): a group of query heads shares one state per token. The state is the value; the
/// key is the first columns of the state, then one rotary key that all heads share.
/// Parameters: q_proj [H d, dim], kv_proj [G d, dim], k_rope_proj [rope, dim], o_proj [dim, H d].
/// `qk-norm` adds q_norm [d], k_norm [d - rope], which norms columns of the state when they are
/// read as keys, and k_rope_norm [rope].
namespace headcount {

namespace {

class GroupedTiedAttention : public Attention {
 public:
  GroupedTiedAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.whole("rope-dim")),
        q_proj_(weights.get<Linear>("q_proj")),
        kv_proj_(weights.find<Linear>("kv_proj")),
        rope_proj_(weights.find<Linear>("k_rope_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index width = plan().head_dim, rope_dim = plan().whole("rope-dim");
    const Rows state = memory.keep("state", [&] {
      return split_heads(convolved("kv", (*kv_proj_)(x), memory), plan().whole("kv-heads"));
    });
    std::vector<Rows> keys;
    if (rope_dim < width) keys.push_back(normed_keys(*x.tape, state.columns(0, width - rope_dim)));
    if (rope_dim > 0) {
      keys.push_back(memory.keep("rope_key", [&] {
        const Var key = split_heads(convolved("k_rope", (*rope_proj_)(x), memory), 1);
        return rotate(normed_rope_key(key), memory);
      }));
    }
    const Var heads = split_heads(convolved("q", q_proj_(x), memory), plan().heads);
    const Var q = normalize_for_scores(rotate(normed_queries(heads), memory));
    keys = normalize_for_scores(*x.tape, std::move(keys));
    return output(x, attention(q, keys, state, options(*x.tape, width, memory)));
  }

 private:
  Linear q_proj_;
  std::optional<Linear> kv_proj_, rope_proj_;  // none in a layer that shares
};

AttentionDescription describe_layer(const AttentionPlan& c) {
  const Index groups = c.whole("kv-heads"), rope_dim = c.whole("rope-dim");
  AttentionForm form = {
      .projections = {Projection{"q_proj", c.dim, c.heads * c.head_dim}.in_canon("q"),
                      Projection{"kv_proj", c.dim, groups * c.head_dim, Projection::Role::to_cache}
                          .in_canon("kv")},
      .key_width = c.head_dim,
      .value_width = c.head_dim};
  std::vector<Kept> keeps = {{"state", groups, c.head_dim}};
  if (rope_dim > 0) {
    form.projections.push_back(
        Projection{"k_rope_proj", c.dim, rope_dim, Projection::Role::to_cache}.in_canon("k_rope"));
    keeps.push_back({"rope_key", 1, rope_dim});
  }
  declare_qk_norm(c, form,
                  {c.head_dim, c.head_dim - rope_dim, rope_dim, Projection::Role::of_token});
  return {std::move(keeps), {std::move(form)}};
}

void check(const AttentionPlan& c) {
  require_kv_heads(c);
  require_rotary_part(c, c.whole("rope-dim"));
}

}  // namespace

extern const AttentionKind kGta = {
    .name = "gta",
    .summary =
        "grouped-tied: a row per KV head (`kv-heads`) is the value and, beside a shared rotary key "
        "of `rope-dim`, the key",
    .numbers = {"kv-heads"},
    .no_qk_norm = "",
    .settings =
        [] {
          return SettingList{shared_setting("kv-heads", half_of_heads()),
                             shared_setting("rope-dim", half_of_head())};
        },
    .check = check,
    .describe = describe_layer,
    .make = make_layer<GroupedTiedAttention>};

}  // namespace headcount
