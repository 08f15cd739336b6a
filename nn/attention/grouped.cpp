#include "nn/attention/attention.h"

/// Grouped-query attention and its two ends: H query heads share G KV heads. G = H is MHA (Vaswani
/// et al., 2017), G = 1 is MQA (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d].
///
/// MFA is MQA with wider heads, whose queries pass through a latent: q_a_proj [rank, dim],
/// q_a_layernorm [rank] and q_b_proj [H d, rank] (Hu et al., "Multi-matrix factorization
/// attention", 2024).
///
/// `qk-norm` adds q_norm [d] and k_norm [d]. RoPE rotates the last `rope-dim` dimensions of a head.
/// With `tie-kv` one row is key and value, and k_norm norms it as both: kv_proj [G d, dim] replaces
/// k_proj and v_proj. The weighted sum of such rows is rotated by the
/// keys' positions; rotating it back by the query's position leaves a rotation by the distance of
/// each token (Su, "S2", https://kexue.fm/archives/10907).
namespace headcount {

namespace {

bool ties_kv(const AttentionPlan& c) { return c.on("tie-kv"); }

Index kv_heads(const AttentionPlan& c) {
  if (c.has("kv-heads")) return c.whole("kv-heads");
  return c.kind().name == "mha" ? c.heads : 1;
}

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionPlan& c, LayerWeights& weights)
      : Attention(c, c.whole("rope-dim"), {c.heads, c.head_dim}),
        q_proj_(weights, c.heads * c.head_dim, {.rank = c.has("q-rank") ? c.whole("q-rank") : 0}) {
    const auto rows = [&](const char* name, const char* part) {
      return weights.row_matrix(name, c.dim, kv_heads(c) * c.head_dim, part);
    };
    k_proj_ = rows(ties_kv(c) ? "kv_proj" : "k_proj", "k");
    if (!ties_kv(c)) v_proj_ = rows("v_proj", "v");
    add_qk_norms(weights, {c.head_dim, c.head_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const Index groups = kv_heads(plan());
    const AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const auto queries = [&] {
      return prepare(normed_queries(split_heads(convolved("q", q_proj_(x), memory), plan().heads)));
    };
    const auto keys = [&] {
      return normed_keys(split_heads(convolved("k", (*k_proj_)(x), memory), groups));
    };
    if (ties_kv(plan())) {
      const Rows kv = memory.keep("kv", [&] { return rotate(keys(), memory); });
      const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
      return output(x, rotate(attention(queries(), k, kv, o), memory, Rotation::inverse));
    }
    const Rows k = memory.keep("k", [&] { return prepare(keys()); });
    const Rows v = memory.keep("v", [&] {
      return mixed_values(split_heads(convolved("v", (*v_proj_)(x), memory), groups), memory);
    });
    return output(x, attention(queries(), k, v, o));
  }

 private:
  QueryProjection q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // one kv_proj if tied; none in a layer that shares
};

// Rows of all four kinds.
SettingList settings() {
  return {shared_setting("rope-dim", same_as("head-dim")),
          {"tie-kv", "use one projection of x as both key and value; the cache keeps it once",
           kOnOff, "off"}};
}

void check(const AttentionPlan& c) {
  const Index rope_dim = c.whole("rope-dim");
  if (rope_dim == c.head_dim) require_rotary_heads(c);
  require_rotary_part(c, rope_dim);
  if (c.has("kv-heads")) require_kv_heads(c);
}

// Adds to `kind` what the four kinds of this file have in common.
constexpr AttentionKind grouped(AttentionKind kind) {
  kind.check = check;
  kind.make = make_layer<GroupedAttention>;
  kind.no_qk_norm = "";
  return kind;
}

}  // namespace

extern constinit const AttentionKind kMha =
    grouped({.name = "mha",
             .summary = "multi-head: each query head has its own keys and values",
             .formula = "softmax(qᵢ kᵢᵀ / √d) vᵢ",
             .source = "https://arxiv.org/abs/1706.03762 (2017)",
             .architecture = "llama",
             .settings = settings});
extern constinit const AttentionKind kMqa =
    grouped({.name = "mqa",
             .summary = "multi-query: all query heads share one KV head",
             .formula = "softmax(qᵢ kᵀ / √d) v",
             .source = "https://arxiv.org/abs/1911.02150 (2019)",
             .architecture = "llama",
             .settings = settings});
extern constinit const AttentionKind kGqa =
    grouped({.name = "gqa",
             .summary = "grouped-query: `kv-heads` KV heads, each for a group of query heads",
             .formula = "softmax(qᵢ kᵀ / √d) v with k and v of its KV head",
             .source = "https://arxiv.org/abs/2305.13245 (2023)",
             .architecture = "llama",
             .numbers = {"kv-heads"},
             .settings = [] {
               return together({{shared_setting("kv-heads", half_of_heads())}, settings()});
             }});
extern constinit const AttentionKind kMfa = grouped(
    {.name = "mfa",
     .summary = "multi-matrix factorization: one KV head of `head-dim`, default 2 dim / heads, "
                "queries from a latent of `q-rank`",
     .formula = "softmax(qᵢ kᵀ / √d) v with qᵢ from a latent",
     .source = "https://arxiv.org/abs/2412.19255 (2024)",
     .numbers = {"head-dim"},
     .settings = [] {
       return together({{shared_setting("head-dim", twice_the_width()),
                         shared_setting("q-rank", half_of_dim())},
                        settings()});
     }});

}  // namespace headcount
