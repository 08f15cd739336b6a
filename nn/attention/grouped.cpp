#include "nn/attention/attention.h"

/// Grouped-query attention and its two ends: H query heads share G KV heads. G = H is MHA (Vaswani
/// et al., 2017), G = 1 is MQA (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H k, dim], k_proj [G k, dim], v_proj [G d, dim], o_proj [dim, H d]; queries
/// and keys have `key-dim` k dimensions, by default d. MiMo-V2-Flash has 192 beside values of 128.
///
/// MFA is MQA with wider heads, whose queries pass through a latent: q_a_proj [rank, dim],
/// q_a_layernorm [rank] and q_b_proj [H k, rank] (Hu et al., 2024).
///
/// `qk-norm` adds q_norm [k] and k_norm [k]. RoPE rotates the last `rope-dim` dimensions of a head.
/// With `tie-kv` one row is key and value, and k_norm norms it as both: kv_proj [G d, dim] replaces
/// k_proj and v_proj. The weighted sum of rows is rotated by the keys' positions; rotated back by
/// the query's, by the distance of each token (Su, "S2", https://kexue.fm/archives/10907).
namespace headcount {

namespace {

// Settings of all four kinds.
struct GroupedSizes {
  Index kv_heads = 1;  // 0: as many as query heads
  Index q_rank = 0;    // 0: no latent of the queries
  Index key_dim = 0, rope_dim = 0;
  bool tie_kv = false;

  void visit(const auto& setting) {
    setting(key_dim, {"key-dim", "dimensions of q and k per head; those of v are head-dim",
                      WholeRange{1}, same_as("head-dim")});
    setting(rope_dim, shared_setting("rope-dim", same_as("key-dim")));
    setting(tie_kv,
            {"tie-kv", "use one projection of x as both key and value; the cache keeps it once",
             kOnOff, "off"});
  }
  void check(const AttentionPlan& c) const {
    if (rope_dim == c.head_dim) require_rotary_heads(c);
    require_setting(!tie_kv || key_dim == c.head_dim,
                    "with `tie-kv` a key is a value, `head-dim` {} wide; leave `key-dim`",
                    c.head_dim);
    require_rotary_part(c, rope_dim, key_dim);
    if (kv_heads > 0) require_kv_heads(c, kv_heads);
  }
};

struct MhaSizes : GroupedSizes {
  MhaSizes() { kv_heads = 0; }
};

struct GqaSizes : GroupedSizes {
  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", half_of_heads()));
    GroupedSizes::visit(setting);
  }
};

struct MfaSizes : GroupedSizes {
  void visit(const auto& setting) {
    setting(shared_setting("head-dim", twice_the_width()));
    setting(q_rank, shared_setting("q-rank", half_of_dim()));
    GroupedSizes::visit(setting);
  }
};

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionPlan& c, const GroupedSizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, {c.heads, c.head_dim}),
        kv_heads_(s.kv_heads > 0 ? s.kv_heads : c.heads),
        key_dim_(s.key_dim),
        tie_kv_(s.tie_kv),
        q_proj_(weights, c.heads * s.key_dim, {.rank = s.q_rank}) {
    k_proj_ = weights.row_matrix(tie_kv_ ? "kv_proj" : "k_proj", c.dim, kv_heads_ * s.key_dim, "k");
    if (!tie_kv_) v_proj_ = weights.row_matrix("v_proj", c.dim, kv_heads_ * c.head_dim, "v");
    add_qk_norms(weights, {s.key_dim, s.key_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const AttentionOptions o = options(*x.tape, key_dim_, memory);
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const auto queries = [&] {
      return prepare(normed_queries(split_heads(convolved("q", q_proj_(x), memory), plan().heads)));
    };
    const auto keys = [&] {
      return normed_keys(split_heads(convolved("k", (*k_proj_)(x), memory), kv_heads_));
    };
    if (tie_kv_) {
      const Rows kv = memory.keep("kv", [&] { return rotate(keys(), memory); });
      const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
      return output(x, rotate(attention(queries(), k, kv, o), memory, Rotation::inverse));
    }
    const Rows k = memory.keep("k", [&] { return prepare(keys()); });
    const Rows v = memory.keep("v", [&] {
      return mixed_values(split_heads(convolved("v", (*v_proj_)(x), memory), kv_heads_), memory);
    });
    return output(x, attention(queries(), k, v, o));
  }

 private:
  Index kv_heads_, key_dim_;
  bool tie_kv_;
  QueryProjection q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // one kv_proj if tied; none in a layer that shares
};

}  // namespace

extern constinit const AttentionKind kMha = attention_of<GroupedAttention, MhaSizes>(
    {.name = "mha",
     .summary =
         "Multi-head attention keeps a key and a value for each query head: 2 H d numbers a token. "
         "Nothing is rebuilt. It is for plenty of memory; all others are measured against it.",
     .formula = "softmax(qᵢ kᵢᵀ / √d) vᵢ",
     .source = "https://arxiv.org/abs/1706.03762 (2017)",
     .architecture = "llama"});
extern constinit const AttentionKind kMqa = attention_of<GroupedAttention, GroupedSizes>(
    {.name = "mqa",
     .summary = "Multi-query attention keeps one key and one value for all heads: 2 d numbers a "
                "token. Nothing is rebuilt, and a row read once serves all heads. It is for "
                "long contexts and large batches; what it costs in loss depends on the text.",
     .formula = "softmax(qᵢ kᵀ / √d) v",
     .source = "https://arxiv.org/abs/1911.02150 (2019)",
     .architecture = "llama"});
extern constinit const AttentionKind kGqa = attention_of<GroupedAttention, GqaSizes>(
    {.name = "gqa",
     .summary = "Grouped-query attention keeps a key and a value for each of G groups of heads: 2 "
                "G d numbers a token. Nothing is rebuilt. It is worth choosing where `mha` caches "
                "too much and `mqa` loses too much; Llama 3 has 8 groups.",
     .formula = "softmax(qᵢ kᵀ / √d) v with k and v of its KV head",
     .source = "https://arxiv.org/abs/2305.13245 (2023)",
     .architecture = "llama",
     .numbers = {"kv-heads"}});
extern constinit const AttentionKind kMfa = attention_of<GroupedAttention, MfaSizes>(
    {.name = "mfa",
     .summary = "Multi-matrix factorization attention keeps one key and one value, twice as wide "
                "by default: 2 d numbers a token. Nothing is rebuilt; queries come from a latent, "
                "so that many wide heads take few weights. It is worth trying where the cache must "
                "be that of one KV head and arithmetic is cheap, as in Step-3.",
     .formula = "softmax(qᵢ kᵀ / √d) v with qᵢ from a latent",
     .source = "https://arxiv.org/abs/2412.19255 (2024)",
     .numbers = {"head-dim"}});

}  // namespace headcount
