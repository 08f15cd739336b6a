#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// Grouped-query attention and its two ends: H query heads share G key/value heads. MHA is G = H
/// (Vaswani et al., 2017), MQA is G = 1 (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d].
namespace headcount {

namespace {

struct GroupedSettings {
  Index kv_heads = kUnset;
};

Index kv_heads(const AttentionConfig& c) { return c.own<GroupedSettings>().kv_heads; }

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionConfig& c, const LayerWeights& weights)
      : Attention(c, weights, c.head_dim),
        q_proj_(weights.linear("q_proj")),
        k_proj_(weights.find_linear("k_proj")),
        v_proj_(weights.find_linear("v_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index heads = config().heads, groups = kv_heads(config());
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const Rows k = memory.keep("k", [&] { return prepare(split_heads((*k_proj_)(x), groups)); });
    const Rows v = memory.keep("v", [&] { return split_heads((*v_proj_)(x), groups); });
    const Var q = prepare(split_heads(q_proj_(x), heads));
    return output(attention(q, k, v, options(config().head_dim, memory)));
  }

 private:
  Linear q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // not in a layer that shares
};

std::unique_ptr<Attention> make(const AttentionConfig& config, const LayerWeights& weights) {
  return std::make_unique<GroupedAttention>(config, weights);
}

AttentionDescription describe_grouped(const AttentionConfig& c) {
  const Index q_width = c.heads * c.head_dim, kv_width = kv_heads(c) * c.head_dim;
  return {.keeps = {{"k", kv_heads(c), c.head_dim}, {"v", kv_heads(c), c.head_dim}},
          .forms = {{.name = "",
                     .projections = {{"q_proj", c.dim, q_width},
                                     Projection::keeping("k_proj", c.dim, kv_width),
                                     Projection::keeping("v_proj", c.dim, kv_width)},
                     .key_width = c.head_dim,
                     .value_width = c.head_dim}}};
}

void resolve_mha(AttentionConfig& c) {
  c.own<GroupedSettings>().kv_heads = c.heads;
  resolve_rotary_heads(c);
}

void resolve_mqa(AttentionConfig& c) {
  c.own<GroupedSettings>().kv_heads = 1;
  resolve_rotary_heads(c);
}

void gqa_settings(AttentionConfig& c, Settings& s) {
  s.integer("kv-heads", "key/value heads; default heads / 2", c.own<GroupedSettings>().kv_heads, 1);
}

void resolve_gqa(AttentionConfig& c) {
  Index& groups = c.own<GroupedSettings>().kv_heads;
  if (groups == kUnset) {
    require_setting(c.heads % 2 == 0,
                    "`attention` gqa takes half of `heads` as key/value heads, but " +
                        std::to_string(c.heads) + " is odd; give `kv-heads`");
    groups = c.heads / 2;
  }
  require_setting(groups > 0 && c.heads % groups == 0, "`kv-heads` " + std::to_string(groups) +
                                                           " does not divide `heads` " +
                                                           std::to_string(c.heads));
  resolve_rotary_heads(c);
}

}  // namespace

const AttentionKind kMha = {.name = "mha",
                            .summary = "multi-head: each query head has its own keys and values",
                            .architecture = "llama",
                            .resolve = resolve_mha,
                            .describe = describe_grouped,
                            .make = make};
const AttentionKind kMqa = {.name = "mqa",
                            .summary = "multi-query: all query heads share one key/value head",
                            .architecture = "llama",
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

}  // namespace headcount
