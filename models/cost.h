#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/config.h"

namespace headcount {

/// What one attention costs at a given context, from its sizes alone.
struct CostRow {
  std::string attention;  ///< a kind's name, or "mla-absorbed"
  Count params_per_layer;
  Count linear_macs_per_token_per_layer;   ///< multiply-accumulates of the projections
  Count prefill_attention_macs_per_layer;  ///< scores and sums of all context x context pairs
  Count decode_attention_macs_per_layer;   ///< scores and sums of one token over the context
  Count decode_expansion_macs_per_layer;   ///< to get k and v of the context back from the cache
  Count cache_elements_per_token_per_layer;
  Count cache_elements_per_layer;  ///< at the context
  Count cache_bytes;               ///< at the context, all layers, one sequence, int8's scales too
};

/// One row per form of each attention, with the sizes of `config`; `config` is not resolved. With a
/// window, no more keys than that are seen and kept. A cached number takes `bytes_per_element`,
/// each scaled row of numbers `bytes_per_row` more. A kind that the sizes do not fit is left
/// out, and the reason added to `left_out`. Throws ShapeError where a figure would overflow 64
/// bits, or if no kind fits.
std::vector<CostRow> cost_table(const ModelConfig& config, Index context, Index bytes_per_element,
                                std::vector<std::string>& left_out, Index bytes_per_row = 0);

/// The attention of a well-known model.
struct KnownModel {
  std::string name;    ///< "llama-3-8b"
  std::string source;  ///< where the sizes are published
  nlohmann::json settings;
};
const std::vector<KnownModel>& known_models();
/// Throws SettingError that lists the known names.
const KnownModel& known_model(std::string_view name);

}  // namespace headcount
