#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// Grouped-tied attention (Zadouri, Strauss and Dao, "Hardware-efficient attention for fast
/// decoding", 2025): a group of query heads shares one state per token. The state is the value, and
/// its first columns, beside one rotary key that all heads share, are the key.
/// Parameters: q_proj [H d, dim], kv_proj [G d, dim], k_rope_proj [rope, dim], o_proj [dim, H d].
namespace headcount {

namespace {

struct GtaSettings {
  Index kv_heads = kUnset;
  Index rope_dim = kUnset;
};

const GtaSettings& gta(const AttentionConfig& c) { return c.own<GtaSettings>(); }

class GroupedTiedAttention : public Attention {
 public:
  GroupedTiedAttention(const AttentionConfig& c, const LayerWeights& weights)
      : Attention(c, weights, gta(c).rope_dim),
        q_proj_(weights.linear("q_proj")),
        kv_proj_(weights.find_linear("kv_proj")),
        rope_proj_(weights.find_linear("k_rope_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const GtaSettings& own = gta(config());
    const Index width = config().head_dim;
    const Rows state =
        memory.keep("state", [&] { return split_heads((*kv_proj_)(x), own.kv_heads); });
    std::vector<Rows> keys;
    if (own.rope_dim < width) keys.push_back(state.columns(0, width - own.rope_dim));
    if (own.rope_dim > 0) {
      keys.push_back(memory.keep("rope_key",
                                 [&] { return rotate(split_heads((*rope_proj_)(x), 1), memory); }));
    }
    const Var q = normalize_for_scores(rotate(split_heads(q_proj_(x), config().heads), memory));
    keys = normalize_for_scores(*x.tape, std::move(keys));
    return output(x, attention(q, keys, state, options(width, memory)));
  }

 private:
  Linear q_proj_;
  std::optional<Linear> kv_proj_, rope_proj_;  // not in a layer that shares
};

AttentionDescription describe_gta(const AttentionConfig& c) {
  const GtaSettings& own = gta(c);
  AttentionForm form = {
      .name = "",
      .projections = {{"q_proj", c.dim, c.heads * c.head_dim},
                      Projection::keeping("kv_proj", c.dim, own.kv_heads * c.head_dim)},
      .key_width = c.head_dim,
      .value_width = c.head_dim};
  std::vector<Kept> keeps = {{"state", own.kv_heads, c.head_dim}};
  if (own.rope_dim > 0) {
    form.projections.push_back(Projection::keeping("k_rope_proj", c.dim, own.rope_dim));
    keeps.push_back({"rope_key", 1, own.rope_dim});
  }
  return {std::move(keeps), {std::move(form)}};
}

void gta_settings(AttentionConfig& c, Settings& s) {
  GtaSettings& own = c.own<GtaSettings>();
  s.integer("kv-heads", "key/value heads; default heads / 2", own.kv_heads, 1);
  s.integer("rope-dim", "width of the rotary key; default head-dim / 2", own.rope_dim, 0);
}

void resolve_gta(AttentionConfig& c) {
  GtaSettings& own = c.own<GtaSettings>();
  resolve_kv_heads(c, own.kv_heads);
  if (own.rope_dim == kUnset) own.rope_dim = c.head_dim / 4 * 2;  // half of it, and even
  resolve_rotary_part(c, own.rope_dim);
}

}  // namespace

const AttentionKind kGta = {
    .name = "gta",
    .summary =
        "grouped-tied: a state per `kv-heads` is the value and, beside a shared rotary key of "
        "`rope-dim`, the key",
    .spec_numbers = 1,
    .settings = gta_settings,
    .resolve = resolve_gta,
    .describe = describe_gta,
    .make = make_layer<GroupedTiedAttention>,
    .no_heads = "the first half of its keys is that of its values"};

}  // namespace headcount
