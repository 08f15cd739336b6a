#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// Latent-bias attention, which a course teaches under the name of MLA: a projection z of each
/// token adds z_i.z_j to the scores, softmax((q k^T + z z^T) scale) v. That is attention whose
/// queries are [q; z] and whose keys are [k; z], which is how it is computed, and it compresses
/// nothing: z is cached besides k and v.
namespace headcount {

namespace {

struct LatentBiasSettings {
  Index latent_dim = kUnset;
};

Index latent_dim(const AttentionConfig& c) { return c.own<LatentBiasSettings>().latent_dim; }

class LatentBiasAttention : public Attention {
 public:
  LatentBiasAttention(const AttentionConfig& c, const LayerWeights& weights)
      : Attention(c, weights, c.head_dim),
        q_proj_(weights.linear("q_proj")),
        k_proj_(weights.linear("k_proj")),
        v_proj_(weights.linear("v_proj")),
        z_proj_(weights.linear("z_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const auto heads = [&](const Linear& projection) {
      return split_heads(projection(x), config().heads);
    };
    const Var z = heads(z_proj_);
    const auto prepare = [&](Var h) { return normalize_for_scores(concat(rotate(h, memory), z)); };
    const Rows k = memory.keep("k", prepare(heads(k_proj_)));
    const Rows v = memory.keep("v", heads(v_proj_));
    return output(x, attention(prepare(heads(q_proj_)), k, v, options(config().head_dim, memory)));
  }

 private:
  Linear q_proj_, k_proj_, v_proj_, z_proj_;
};

AttentionDescription describe_latent_bias(const AttentionConfig& c) {
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

void latent_bias_settings(AttentionConfig& c, Settings& s) {
  s.integer("latent-dim", "width of z; default head-dim / 2",
            c.own<LatentBiasSettings>().latent_dim, 1);
}

void resolve_latent_bias(AttentionConfig& c) {
  resolve_rotary_heads(c);
  Index& width = c.own<LatentBiasSettings>().latent_dim;
  if (width == kUnset) width = std::max<Index>(1, c.head_dim / 2);
}

}  // namespace

const AttentionKind kLatentBias = {
    .name = "latent-bias",
    .summary =
        "multi-head whose scores also compare a projection of `latent-dim` per head with itself",
    .spec_numbers = 1,
    .settings = latent_bias_settings,
    .resolve = resolve_latent_bias,
    .describe = describe_latent_bias,
    .make = make_layer<LatentBiasAttention>,
    .no_heads = "a part of its keys is its queries too"};

}  // namespace headcount
