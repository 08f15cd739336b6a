#include <array>

#include "nn/attention/kinds.h"

/// Latent-bias attention, which a course teaches under the name of MLA: a projection z of each
/// token adds z_i.z_j to the scores, softmax((q k^T + z z^T) scale) v. That is attention whose
/// queries are [q; z] and whose keys are [k; z], which is how it is computed, and it compresses
/// nothing: z is cached besides k and v.
namespace headcount {

namespace {

class LatentBiasAttention : public Attention {
 public:
  LatentBiasAttention(ParameterStore& parameters, const std::string& prefix,
                      const AttentionConfig& c, const WeightInit& init)
      : config_(c),
        q_proj_(parameters, prefix + ".q_proj", c.dim, c.heads * c.head_dim, c.bias,
                init.deviation),
        k_proj_(parameters, prefix + ".k_proj", c.dim, c.heads * c.head_dim, c.bias,
                init.deviation),
        v_proj_(parameters, prefix + ".v_proj", c.dim, c.heads * c.head_dim, c.bias,
                init.deviation),
        z_proj_(parameters, prefix + ".z_proj", c.dim, c.heads * c.latent_dim, c.bias,
                init.deviation) {
    if (c.output_projection) {
      o_proj_.emplace(parameters, prefix + ".o_proj", c.heads * c.head_dim, c.dim, c.bias,
                      init.residual_deviation);
    }
    if (c.rotary) rotary_.emplace(c.head_dim, c.positions, c.rope_theta);
  }

  Var forward(Var x, std::span<const std::uint8_t> key_mask) const override {
    const auto [q, k, v] = project(x, 0);
    return output(attention(q, k, v, attention_options(config_, config_.head_dim, key_mask)));
  }

  KvCache make_cache(const CacheOptions& o) const override {
    const AttentionConfig& c = config_;
    KvCache cache;
    cache.tensors.emplace_back(o.sequences, c.heads, c.head_dim + c.latent_dim, o.capacity,
                               o.type);                                                // [k; z]
    cache.tensors.emplace_back(o.sequences, c.heads, c.head_dim, o.capacity, o.type);  // v
    return cache;
  }

  Var decode(Var x, KvCache& cache) const override {
    const auto [q, k, v] = project(x, cache.length);
    cache.write(0, k);
    cache.write(1, v);
    return output(attend_cached(q, cache, 0, 1, config_.head_dim,
                                attention_options(config_, config_.head_dim, {})));
  }

 private:
  struct Projections {
    Var q, k,
        v;  // [q; z] and [k; z] [B, T, heads, head_dim + latent_dim], v [B, T, heads, head_dim]
  };
  Projections project(Var x, Index first_position) const {
    const AttentionConfig& c = config_;
    const auto turn = [&](Var heads) {
      return rotary_ ? rotary(heads, *rotary_, *c.rotary_layout, first_position) : heads;
    };
    const Var z = split_heads(z_proj_(x), c.heads);
    const Var q = concat(turn(split_heads(q_proj_(x), c.heads)), z);
    const Var k = concat(turn(split_heads(k_proj_(x), c.heads)), z);
    return {normalize_for_scores(q, c.score_scale), normalize_for_scores(k, c.score_scale),
            split_heads(v_proj_(x), c.heads)};
  }
  Var output(Var heads) const {
    return o_proj_ ? (*o_proj_)(merge_heads(heads)) : merge_heads(heads);
  }

  AttentionConfig config_;
  Linear q_proj_, k_proj_, v_proj_, z_proj_;
  std::optional<Linear> o_proj_;
  std::optional<RotaryTable> rotary_;
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
  costs.cache_vectors_per_token = Count(2) * c.heads;
  return {costs};
}

void resolve_latent_bias(AttentionConfig& c) {
  resolve_rotary_heads(c);
  if (c.latent_dim == kUnset) c.latent_dim = std::max<Index>(1, c.head_dim / 2);
}

constexpr std::array<std::string_view, 1> kSettings = {"latent-dim"};

}  // namespace

const AttentionKind kLatentBias = {
    "latent-bias",
    "multi-head whose scores also compare a projection of --latent-dim per head with itself",
    kSettings,
    resolve_latent_bias,
    make,
    costs};

}  // namespace headcount
