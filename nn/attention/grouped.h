#pragma once

#include "nn/attention/heads.h"
#include "nn/attention/kind.h"

/// Declarations that grouped.cpp and grouped_conversion.cpp share.
namespace headcount {

struct GroupedSettings {
  Index kv_heads = 0;
  Index q_rank = 0;  ///< width of the query latent, for MFA only
  Index rope_dim = 0;
  bool tie_kv = false;
};

AttentionHeads grouped_to_heads(const AttentionPlan& plan, const LayerMatrices& weights);
MadeLayer grouped_of_heads(const AttentionPlan& plan, const AttentionHeads& heads,
                           const ConversionOptions& options);

}  // namespace headcount
