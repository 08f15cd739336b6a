#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/attention/kind.h"
#include "nn/attention/layer_cache.h"

/// What a layer keeps and multiplies. All of it is observed: the layer is built in a store without
/// memory, and its `forward` runs on a dry tape.
namespace headcount {

/// Parts of the layer's cache: rows, then states. Throws ShapeError for a plan whose layer cannot
/// be made: with `canon` B for a kind that has nothing to convolve, or sharing a cache that its
/// kind cannot share.
std::vector<Kept> cache_parts(const AttentionPlan& plan);
/// Empty cache of a layer, with room for what its block keeps besides. Throws ShapeError for a form
/// that the layer does not have.
LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options,
                      const std::vector<Kept>& of_block = {});
/// Shape [1, 1, heads, width] of a token's values that `value-residual` mixes; none if the layer
/// passes no values through Attention::mixed_values.
std::optional<Shape> values_to_mix(const AttentionPlan& plan);

/// Costs of a layer, or of the layers of a model, at a context; MACs are multiply-accumulates.
struct Costs {
  Count parameters;             ///< biases and norms included
  Count linear_macs_per_token;  ///< of projections, convolutions and factors
  /// Scores and weighted sums of a prefill, or the updates of a state: the context times the rows
  /// that a query sees at most, so that masked pairs count; and an indexer's scores.
  Count prefill_macs;
  Count decode_macs;     ///< as prefill_macs, of one token at the end of the context
  Count expansion_macs;  ///< of that token, to rebuild keys and values from the cache
};
/// Costs of one form of a layer.
struct AttentionCosts : Costs {
  std::string name;  ///< the kind; forms after the first add their own: "mla-absorbed"
};
/// Costs of each form of the layer, a counted one last.
std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan, Index context);

/// Notes on a layer: its kind's, and on rows pooled over blocks of tokens: what the cache holds,
/// and a warning if the context is shorter than a block or if tokens leave the window before their
/// block is complete.
std::vector<std::string> attention_notes(const AttentionPlan& plan);

}  // namespace headcount
