#include "nn/attention/attention.h"

/// Grouped-tied attention (Zadouri, Strauss and Dao, "Hardware-efficient attention for fast
/// decoding", 2025): a group of query heads shares one row per token. The row is the value; the
/// key is the first columns of the row, then one rotary key that all heads share.
/// Parameters: q_proj [H d, dim], kv_proj [G d, dim], k_rope_proj [rope, dim], o_proj [dim, H d].
/// `qk-norm` adds q_norm [d], k_norm [d - rope], which norms columns of the row when they are
/// read as keys, and k_rope_norm [rope].
namespace headcount {

namespace {

struct GtaSizes {
  Index kv_heads, rope_dim;

  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", half_of_heads()));
    setting(rope_dim, shared_setting("rope-dim", half_of_head()));
  }
  void check(const AttentionPlan& c) const {
    require_kv_heads(c, kv_heads);
    require_rotary_part(c, rope_dim, c.head_dim);
  }
};

class GroupedTiedAttention : public Attention {
 public:
  GroupedTiedAttention(const AttentionPlan& c, const GtaSizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, {c.heads, c.head_dim}),
        s_(s),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim, "q")),
        kv_proj_(weights.row_matrix("kv_proj", c.dim, s.kv_heads * c.head_dim, "kv")) {
    if (s.rope_dim > 0) rope_proj_ = weights.row_matrix("k_rope_proj", c.dim, s.rope_dim, "k_rope");
    add_qk_norms(weights, {.q = c.head_dim,
                           .k = c.head_dim - s.rope_dim,
                           .rope_key = s.rope_dim,
                           .k_is_cached = false});
  }

  Var forward(Var x, Memory& memory) const override {
    const Index width = plan().head_dim, rope_dim = s_.rope_dim;
    const Rows row = memory.keep(
        "kv", [&] { return split_heads(convolved("kv", (*kv_proj_)(x), memory), s_.kv_heads); });
    std::vector<Rows> keys;
    if (rope_dim < width) keys.push_back(normed_keys(*x.tape, row.columns(0, width - rope_dim)));
    if (rope_dim > 0) {
      keys.push_back(memory.keep("rope_key", [&] {
        const Var key = split_heads(convolved("k_rope", (*rope_proj_)(x), memory), 1);
        return rotate(normed_rope_key(key), memory);
      }));
    }
    const Var heads = split_heads(convolved("q", q_proj_(x), memory), plan().heads);
    const Var q = normalize_for_scores(rotate(normed_queries(heads), memory));
    keys = normalize_for_scores(*x.tape, std::move(keys));
    return output(x, attention(q, keys, row, options(*x.tape, width, memory)));
  }

 private:
  GtaSizes s_;
  Linear q_proj_;
  std::optional<Linear> kv_proj_, rope_proj_;  // none in a layer that shares
};

}  // namespace

extern constinit const AttentionKind kGta = attention_of<GroupedTiedAttention, GtaSizes>(
    {.name = "gta",
     .summary = "Grouped-tied attention keeps one row for each KV head and a rotary key for all: G "
                "d + d / 2 numbers a token. The row is the value; the key is rebuilt from its "
                "first half and the rotary key. It is worth trying in place of `gqa`: its authors "
                "find no loss in quality with about half of the cache.",
     .formula =
         "softmax(qᵢ kᵢᵀ / √d) v with kᵢ = [first half of v, rotary key shared by all heads]",
     .source = "https://arxiv.org/abs/2505.21487 (2025)",
     .numbers = {"kv-heads"}});

}  // namespace headcount
