#include "nn/attention/attention.h"

/// Latent-bias attention, which a course teaches under the name of MLA: a projection z of each
/// token adds z_i.z_j to the scores, softmax((q k^T + z z^T) scale) v. It is computed as attention
/// with queries [q; z] and keys [k; z], and compresses nothing: the cache has z besides k and v.
/// `qk-norm` norms q and k, not z, by q_norm [d] and k_norm [d].
namespace headcount {

namespace {

struct LatentBiasSizes {
  Index latent_dim;

  void visit(const auto& setting) {
    setting(latent_dim, {"latent-dim", "dimensions of z per head; the product z.z is added to q.k",
                         WholeRange{1}, Default("head-dim / 2", [](const Given& v) {
                           return std::max<Index>(1, v.whole("head-dim") / 2);
                         })});
  }
  void check(const AttentionPlan& c) const { require_rotary_heads(c); }
};

class LatentBiasAttention : public Attention {
 public:
  LatentBiasAttention(const AttentionPlan& c, const LatentBiasSizes& s, LayerWeights& weights)
      : Attention(c, c.head_dim, {c.heads, c.head_dim}),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim, "q")),
        k_proj_(weights.matrix("k_proj", c.dim, c.heads * c.head_dim, "k")),
        v_proj_(weights.matrix("v_proj", c.dim, c.heads * c.head_dim, "v")),
        z_proj_(weights.matrix("z_proj", c.dim, c.heads * s.latent_dim, "z")) {
    add_qk_norms(weights, {c.head_dim, c.head_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const auto heads = [&](std::string_view part, const Linear& projection) {
      return split_heads(convolved(part, projection(x), memory), plan().heads);
    };
    const Var z = heads("z", z_proj_);
    const auto prepare = [&](Var h) { return normalize_for_scores(concat(rotate(h, memory), z)); };
    const Rows k = memory.keep("k", prepare(normed_keys(heads("k", k_proj_))));
    const Rows v = memory.keep("v", mixed_values(heads("v", v_proj_), memory));
    return output(x, attention(prepare(normed_queries(heads("q", q_proj_))), k, v,
                               options(*x.tape, plan().head_dim, memory)));
  }

 private:
  Linear q_proj_, k_proj_, v_proj_, z_proj_;
};

}  // namespace

extern constinit const AttentionKind kLatentBias =
    attention_of<LatentBiasAttention, LatentBiasSizes>(
        {.name = "latent-bias",
         .summary = "Multi-head attention with a bias keeps a key, a value and a projection z for "
                    "each head: H (2 d + width of z) numbers a token. Nothing is rebuilt: scores "
                    "are q·k + z·z. No case for it is known: a course calls it MLA, and its cache "
                    "is larger than that of `mha`.",
         .formula = "softmax((qᵢ kᵢᵀ + zᵢ zᵢᵀ) / √d) vᵢ",
         .numbers = {"latent-dim"}});

}  // namespace headcount
