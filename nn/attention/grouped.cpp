#include "nn/attention/grouped.h"

#include <array>

#include "nn/attention/kinds.h"

namespace headcount {

GroupedAttention::GroupedAttention(ParameterStore& parameters, const std::string& prefix,
                                   const AttentionConfig& c, const WeightInit& init,
                                   Index key_width)
    : config_(c),
      key_width_(key_width),
      q_proj_(parameters, prefix + ".q_proj", c.dim, c.heads * c.head_dim, c.bias, init.deviation),
      k_proj_(parameters, prefix + ".k_proj", c.dim, c.kv_heads * c.head_dim, c.bias,
              init.deviation),
      v_proj_(parameters, prefix + ".v_proj", c.dim, c.kv_heads * c.head_dim, c.bias,
              init.deviation) {
  if (c.output_projection) {
    o_proj_.emplace(parameters, prefix + ".o_proj", c.heads * c.head_dim, c.dim, c.bias,
                    init.residual_deviation);
  }
  if (c.rotary) rotary_.emplace(c.head_dim, c.positions, c.rope_theta);
}

Var GroupedAttention::forward(Var x, std::span<const std::uint8_t> key_mask) const {
  const auto [q, k, v] = project(x, 0);
  return output(attention(q, k, v, options(key_mask)));
}

KvCache GroupedAttention::make_cache(const CacheOptions& o) const {
  KvCache cache;
  cache.tensors.emplace_back(o.sequences, config_.kv_heads, key_width_, o.capacity, o.type);  // k
  cache.tensors.emplace_back(o.sequences, config_.kv_heads, config_.head_dim, o.capacity,
                             o.type);  // v
  return cache;
}

Var GroupedAttention::decode(Var x, KvCache& cache) const {
  const auto [q, k, v] = project(x, cache.length);
  cache.write(0, k);
  cache.write(1, v);
  return output(attend_cached(q, cache, 0, 1, config_.head_dim, options({})));
}

GroupedAttention::Projections GroupedAttention::project(Var x, Index first_position) const {
  // Rotation keeps lengths, so it may come after normalisation.
  const auto prepare = [&](Var heads) {
    return turn(normalize_for_scores(heads, config_.score_scale), first_position);
  };
  return {prepare(queries(x)), prepare(keys(x)), values(x)};
}

Var GroupedAttention::turn(Var x, Index first_position) const {
  return rotary_ ? rotary(x, *rotary_, *config_.rotary_layout, first_position) : x;
}

Var GroupedAttention::output(Var heads) const {
  return o_proj_ ? (*o_proj_)(merge_heads(heads)) : merge_heads(heads);
}

namespace {

std::unique_ptr<Attention> make(ParameterStore& parameters, const std::string& prefix,
                                const AttentionConfig& config, const WeightInit& init) {
  return std::make_unique<GroupedAttention>(parameters, prefix, config, init, config.head_dim);
}

std::vector<AttentionCosts> costs(const AttentionConfig& c) {
  const Count q_width = Count(c.heads) * c.head_dim, kv_width = Count(c.kv_heads) * c.head_dim;
  AttentionCosts costs;
  costs.name = attention_kind(c.kind).name;
  costs.add_linear(c.dim, q_width, c.bias);
  costs.add_linear(c.dim, kv_width, c.bias);
  costs.add_linear(c.dim, kv_width, c.bias);
  if (c.output_projection) costs.add_linear(q_width, c.dim, c.bias);
  costs.macs_per_pair = Count(2) * q_width;
  costs.cache_elements_per_token = Count(2) * kv_width;  // k and v of each key/value head
  costs.cache_vectors_per_token = Count(2) * c.kv_heads;
  return {costs};
}

void resolve_mha(AttentionConfig& c) {
  c.kv_heads = c.heads;
  resolve_rotary_heads(c);
}

void resolve_mqa(AttentionConfig& c) {
  c.kv_heads = 1;
  resolve_rotary_heads(c);
}

void resolve_gqa(AttentionConfig& c) {
  if (c.kv_heads == kUnset) {
    require_setting(c.heads % 2 == 0,
                    "--attention gqa takes half of --heads as key/value heads, but " +
                        std::to_string(c.heads) + " is odd; give --kv-heads");
    c.kv_heads = c.heads / 2;
  }
  require_setting(c.kv_heads > 0 && c.heads % c.kv_heads == 0,
                  "--kv-heads " + std::to_string(c.kv_heads) + " does not divide --heads " +
                      std::to_string(c.heads));
  resolve_rotary_heads(c);
}

constexpr std::array<std::string_view, 1> kGqaSettings = {"kv-heads"};

}  // namespace

const AttentionKind kMha = {
    "mha", "multi-head: each query head has its own keys and values", {}, 0, resolve_mha, make,
    costs};
const AttentionKind kMqa = {
    "mqa", "multi-query: all query heads share one key/value head", {}, 0, resolve_mqa, make,
    costs};
const AttentionKind kGqa = {
    "gqa",        "grouped-query: --kv-heads key/value heads, each for a group of query heads",
    kGqaSettings, 1,
    resolve_gqa,  make,
    costs};

}  // namespace headcount
