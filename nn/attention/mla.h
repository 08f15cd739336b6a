#pragma once

#include "nn/attention/heads.h"
#include "nn/attention/kind.h"

/// Declarations that mla.cpp and mla_conversion.cpp share.
namespace headcount {

struct MlaSettings {
  Index kv_rank = 0;   ///< width of the latent, all parts together
  Index q_rank = 0;    ///< width of the query latent; 0: none
  Index nope_dim = 0;  ///< dimensions of q and k per head without RoPE
  Index rope_dim = 0;  ///< dimensions of q and k per head with RoPE
  Index v_dim = 0;
  bool latent_norm = true;
  Index latents = 1;
  bool latent_scale = false;
  // Settings of the indexer, which dsa alone has.
  Index index_heads = 0, index_head_dim = 0, index_topk = 0;
  double index_loss = 1;

  bool picks() const { return index_topk > 0; }
  Index latent_width() const { return kv_rank / latents; }
};

/// Factor of `latent-scale` for a latent of that width; 1 without the setting.
double mla_latent_factor(const AttentionPlan& plan, Index width);
QueryLatent mla_query_latent(const AttentionPlan& plan);

AttentionHeads mla_to_heads(const AttentionPlan& plan, const LayerMatrices& weights);
MadeLayer mla_of_heads(const AttentionPlan& plan, const AttentionHeads& heads,
                       const ConversionOptions& options);
void fit_mla(const LayerSettings& layer, const LayerPlace& place, Given& given,
             std::span<const AttentionHeads> layers, const ConversionOptions& options);

}  // namespace headcount
