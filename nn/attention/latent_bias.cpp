#include <array>

#include "nn/attention/grouped.h"
#include "nn/attention/kinds.h"

/// Latent-bias attention, which a course teaches under the name of MLA: a projection z of each
/// token adds z_i.z_j to the scores, softmax((q k^T + z z^T) scale) v. That is attention whose
/// queries are [q; z] and whose keys are [k; z], which is how it is computed, and it compresses
/// nothing: z is cached besides k and v.
namespace headcount {

namespace {

class LatentBiasAttention : public GroupedAttention {
 public:
  LatentBiasAttention(ParameterStore& parameters, const std::string& prefix,
                      const AttentionConfig& c, const WeightInit& init)
      : GroupedAttention(parameters, prefix, c, init, c.head_dim + c.latent_dim),
        z_proj_(parameters, prefix + ".z_proj", c.dim, c.heads * c.latent_dim, c.bias,
                init.deviation) {}

 private:
  Projections project(Var x, Index first_position) const override {
    const Var z = split_heads(z_proj_(x), config().heads);
    const auto prepare = [&](Var heads) {
      return normalize_for_scores(concat(turn(heads, first_position), z), config().score_scale);
    };
    return {prepare(queries(x)), prepare(keys(x)), values(x)};
  }

  Linear z_proj_;
};

std::unique_ptr<Attention> make(ParameterStore& parameters, const std::string& prefix,
                                const AttentionConfig& config, const WeightInit& init) {
  return std::make_unique<LatentBiasAttention>(parameters, prefix, config, init);
}

std::vector<AttentionCosts> costs(const AttentionConfig& c) {
  const Count width = Count(c.heads) * c.head_dim, z_width = Count(c.heads) * c.latent_dim;
  AttentionCosts costs;
  costs.name = kLatentBias.name;
  for (int i = 0; i < 3; ++i) costs.add_linear(c.dim, width, c.bias);
  costs.add_linear(c.dim, z_width, c.bias);
  if (c.output_projection) costs.add_linear(width, c.dim, c.bias);
  costs.macs_per_pair = Count(2) * width + z_width;
  costs.cache_elements_per_token = Count(2) * width + z_width;  // [k; z] and v of each head
  costs.cache_vectors_per_token = Count(2) * c.heads;
  return {costs};
}

void resolve_latent_bias(AttentionConfig& c) {
  resolve_rotary_heads(c);
  c.kv_heads = c.heads;
  if (c.latent_dim == kUnset) c.latent_dim = std::max<Index>(1, c.head_dim / 2);
}

constexpr std::array<std::string_view, 1> kSettings = {"latent-dim"};

}  // namespace

const AttentionKind kLatentBias = {
    "latent-bias",
    "multi-head whose scores also compare a projection of --latent-dim per head with itself",
    kSettings,
    1,
    resolve_latent_bias,
    make,
    costs};

}  // namespace headcount
