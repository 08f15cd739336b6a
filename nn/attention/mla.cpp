#include <array>

#include "nn/attention/kinds.h"

/// Multi-head latent attention, DeepSeek-V2 (2024) and V3: keys and values of all heads are
/// expanded from one latent per token, and one rotary key per token is shared by all heads.
namespace headcount {

namespace {

class LatentAttention : public Attention {
 public:
  LatentAttention(ParameterStore& parameters, const std::string& prefix, const AttentionConfig& c,
                  const WeightInit& init)
      : config_(c),
        kv_a_(parameters, prefix + ".kv_a_proj_with_mqa", c.dim, c.kv_rank + c.rope_dim, c.bias,
              init.deviation),
        kv_b_(parameters, prefix + ".kv_b_proj", c.kv_rank, c.heads * (c.nope_dim + c.v_dim),
              c.bias, init.deviation) {
    const Index q_width = c.heads * (c.nope_dim + c.rope_dim);
    const auto add_norm = [&](std::optional<Norm>& norm, const std::string& name, Index width) {
      if (c.latent_norm) {
        norm.emplace(parameters, prefix + name, width, NormKind::rms, false, c.norm_epsilon);
      }
    };
    if (c.q_rank > 0) {
      q_a_.emplace(parameters, prefix + ".q_a_proj", c.dim, c.q_rank, c.bias, init.deviation);
      add_norm(q_norm_, ".q_a_layernorm", c.q_rank);
      q_.emplace(parameters, prefix + ".q_b_proj", c.q_rank, q_width, c.bias, init.deviation);
    } else {
      q_.emplace(parameters, prefix + ".q_proj", c.dim, q_width, c.bias, init.deviation);
    }
    add_norm(kv_norm_, ".kv_a_layernorm", c.kv_rank);
    if (c.output_projection) {
      o_proj_.emplace(parameters, prefix + ".o_proj", c.heads * c.v_dim, c.dim, c.bias,
                      init.residual_deviation);
    }
    if (c.rotary && c.rope_dim > 0) rotary_.emplace(c.rope_dim, c.positions, c.rope_theta);
  }

  Var forward(Var x, std::span<const std::uint8_t> key_mask) const override {
    const AttentionConfig& c = config_;
    const Var q = turn(split_heads((*q_)(q_a_ ? normed(q_norm_, (*q_a_)(x)) : x), c.heads));

    const std::vector<Var> kv = split(kv_a_(x), std::array{c.kv_rank, c.rope_dim});
    const Var latent = normed(kv_norm_, kv[0]);
    const std::vector<Var> expanded =
        split(split_heads(kv_b_(latent), c.heads), std::array{c.nope_dim, c.v_dim});
    const Var shared_key = turn(split_heads(kv[1], 1));
    const Var k = concat(expanded[0], shared_key), v = expanded[1];

    const Var y = merge_heads(attention(normalize_for_scores(q, c.score_scale),
                                        normalize_for_scores(k, c.score_scale), v,
                                        attention_options(c, c.nope_dim + c.rope_dim, key_mask)));
    return o_proj_ ? (*o_proj_)(y) : y;
  }

 private:
  static Var normed(const std::optional<Norm>& norm, Var x) { return norm ? (*norm)(x) : x; }
  Var turn(Var x) const { return rotary_ ? rotary(x, *rotary_, *config_.rotary_layout) : x; }

  AttentionConfig config_;
  std::optional<Linear> q_a_, q_;
  std::optional<Norm> q_norm_, kv_norm_;
  Linear kv_a_, kv_b_;
  std::optional<Linear> o_proj_;
  std::optional<RotaryTable> rotary_;
};

std::unique_ptr<Attention> make(ParameterStore& parameters, const std::string& prefix,
                                const AttentionConfig& config, const WeightInit& init) {
  return std::make_unique<LatentAttention>(parameters, prefix, config, init);
}

// The projections that both forms have: of the query as far as its latent, and of the keys.
AttentionCosts common_costs(const AttentionConfig& c) {
  AttentionCosts costs;
  if (c.q_rank > 0) costs.add_linear(c.dim, c.q_rank, c.bias);
  costs.add_linear(c.dim, Count(c.kv_rank) + c.rope_dim, c.bias);
  if (c.latent_norm) costs.parameters += Count(c.q_rank) + c.kv_rank;
  // The normed latent and the rotated key: no factor 2, k and v come from the same latent.
  costs.cache_elements_per_token = Count(c.kv_rank) + c.rope_dim;
  return costs;
}

// As trained: k and v are expanded by kv_b_proj. Absorbed: kv_b_proj is multiplied into the query
// projection, W_Q', and the output projection, W_O'; queries and sums are kv_rank wide, and the
// latent itself is key and value of all heads. A bias of kv_b_proj becomes one of W_O'.
std::vector<AttentionCosts> costs(const AttentionConfig& c) {
  const Count q_in = c.q_rank > 0 ? c.q_rank : c.dim;
  AttentionCosts trained = common_costs(c);
  trained.name = kMla.name;
  trained.add_linear(q_in, Count(c.heads) * (Count(c.nope_dim) + c.rope_dim), c.bias);
  trained.add_linear(c.kv_rank, Count(c.heads) * (Count(c.nope_dim) + c.v_dim), c.bias);
  if (c.output_projection) trained.add_linear(Count(c.heads) * c.v_dim, c.dim, c.bias);
  trained.macs_per_pair = Count(c.heads) * (Count(c.nope_dim) + c.rope_dim + c.v_dim);
  trained.expansion_macs_per_key = Count(c.kv_rank) * c.heads * (Count(c.nope_dim) + c.v_dim);

  AttentionCosts absorbed = common_costs(c);
  absorbed.name = "mla-absorbed";
  absorbed.add_linear(q_in, Count(c.heads) * (Count(c.kv_rank) + c.rope_dim), c.bias);
  if (c.output_projection) absorbed.add_linear(Count(c.heads) * c.kv_rank, c.dim, c.bias);
  absorbed.macs_per_pair = Count(c.heads) * (Count(2) * c.kv_rank + c.rope_dim);
  return {trained, absorbed};
}

void resolve_mla(AttentionConfig& c) {
  const auto use_default = [](Index& setting, Index value) {
    if (setting == kUnset) setting = value;
  };
  if (!c.rotary_layout) c.rotary_layout = RotaryLayout::interleaved;
  use_default(c.nope_dim, c.head_dim);
  use_default(c.v_dim, c.head_dim);
  use_default(c.rope_dim, c.head_dim / 4 * 2);  // half of it, and even
  use_default(c.q_rank, 0);
  use_default(c.kv_rank, 2 * c.head_dim - c.rope_dim);
  require_setting(c.kv_rank > 0, "--kv-rank must be at least 1, is " + std::to_string(c.kv_rank));
  require_setting(!c.rotary || c.rope_dim % 2 == 0,
                  "--rope-dim must be even, is " + std::to_string(c.rope_dim));
}

constexpr std::array<std::string_view, 6> kSettings = {"kv-rank",  "q-rank", "nope-dim",
                                                       "rope-dim", "v-dim",  "latent-norm"};

}  // namespace

const AttentionKind kMla = {
    "mla",
    "multi-head latent (DeepSeek): a latent of --kv-rank and a rotary key of --rope-dim per token",
    kSettings,
    resolve_mla,
    make,
    costs};

}  // namespace headcount
