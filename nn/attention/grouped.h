#pragma once

#include "nn/attention/attention.h"

namespace headcount {

/// Grouped-query attention and its two ends: H query heads share G key/value heads. MHA is G = H
/// (Vaswani et al., 2017), MQA is G = 1 (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d].
class GroupedAttention : public Attention {
 public:
  /// `key_width`: elements of a query or key head as they enter the scores.
  GroupedAttention(ParameterStore& parameters, const std::string& prefix,
                   const AttentionConfig& config, const WeightInit& init, Index key_width);

  Var forward(Var x, std::span<const std::uint8_t> key_mask) const override;
  KvCache make_cache(const CacheOptions& options) const override;
  Var decode(Var x, KvCache& cache) const override;

 protected:
  struct Projections {
    Var q, k, v;  ///< [B, T, H, key_width], [B, T, G, key_width], [B, T, G, head_dim]
  };
  /// Projects tokens whose first is at `first_position`, ready for the scores.
  virtual Projections project(Var x, Index first_position) const;

  Var queries(Var x) const { return split_heads(q_proj_(x), config_.heads); }
  Var keys(Var x) const { return split_heads(k_proj_(x), config_.kv_heads); }
  Var values(Var x) const { return split_heads(v_proj_(x), config_.kv_heads); }
  Var turn(Var x, Index first_position) const;  ///< by position, if positions are rotary
  const AttentionConfig& config() const { return config_; }

 private:
  Var output(Var heads) const;
  AttentionOptions options(std::span<const std::uint8_t> key_mask) const {
    return attention_options(config_, config_.head_dim, key_mask);
  }

  AttentionConfig config_;
  Index key_width_;
  Linear q_proj_, k_proj_, v_proj_;
  std::optional<Linear> o_proj_;
  std::optional<RotaryTable> rotary_;
};

}  // namespace headcount
