#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// Latent-bias attention, which a course teaches under the name of MLA: a projection z of each
/// token adds z_i.z_j to the scores, softmax((q k^T + z z^T) scale) v. That is attention whose
/// queries are [q; z] and whose keys are [k; z], which is how it is computed, and it compresses
/// nothing: z is cached besides k and v.
namespace headcount {

namespace {

struct LatentBiasSettings {
  Index latent_dim = 0;
};

constexpr Field<LatentBiasSettings> kLatentBiasFields[] = {
    whole<&LatentBiasSettings::latent_dim>("latent-dim", "width of z; default head-dim / 2", 1)
        .with({.derived = true}),
};

Index latent_dim(const AttentionPlan& c) { return c.own<LatentBiasSettings>().latent_dim; }

class LatentBiasAttention : public Attention {
 public:
  LatentBiasAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.head_dim),
        q_proj_(weights.linear("q_proj")),
        k_proj_(weights.linear("k_proj")),
        v_proj_(weights.linear("v_proj")),
        z_proj_(weights.linear("z_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const auto heads = [&](const Linear& projection) {
      return split_heads(projection(x), plan().heads);
    };
    const Var z = heads(z_proj_);
    const auto prepare = [&](Var h) { return normalize_for_scores(concat(rotate(h, memory), z)); };
    const Rows k = memory.keep("k", prepare(heads(k_proj_)));
    const Rows v = memory.keep("v", heads(v_proj_));
    return output(x, attention(prepare(heads(q_proj_)), k, v, options(plan().head_dim, memory)));
  }

 private:
  Linear q_proj_, k_proj_, v_proj_, z_proj_;
};

AttentionDescription describe_latent_bias(const AttentionPlan& c) {
  const Index width = c.heads * c.head_dim, key_width = c.head_dim + latent_dim(c);
  return {.keeps = {{"k", c.heads, key_width}, {"v", c.heads, c.head_dim}},
          .forms = {{.name = "",
                     .projections = {{"q_proj", c.dim, width},
                                     {"k_proj", c.dim, width},
                                     {"v_proj", c.dim, width},
                                     {"z_proj", c.dim, c.heads * latent_dim(c)}},
                     .key_width = key_width,
                     .value_width = c.head_dim}}};
}

std::any resolve_latent_bias(const AttentionPlan& c, const Given& given) {
  require_rotary_heads(c);
  return read_fields(kLatentBiasFields, given,
                     LatentBiasSettings{.latent_dim = std::max<Index>(1, c.head_dim / 2)});
}

}  // namespace

const AttentionKind kLatentBias = {
    .name = "latent-bias",
    .summary =
        "multi-head whose scores also compare a projection of `latent-dim` per head with itself",
    .numbers = {"latent-dim"},
    .own = own_fields<kLatentBiasFields>(),
    .resolve = resolve_latent_bias,
    .describe = describe_latent_bias,
    .make = make_layer<LatentBiasAttention>,
    .no_heads = "a part of its keys is its queries too"};

}  // namespace headcount
