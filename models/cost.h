#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_cache.h"
#include "nn/attention/costs.h"

namespace headcount {

/// Costs at a context of the attention of all layers in one form, and of their blocks' Canon
/// layers. Layers that share another layer's cache store nothing, and a window limits the keys that
/// are read and stored.
struct CostRow : Costs {
  ModelPlan model;
  ModelCache cache;
  std::string attention = {};  ///< value of the setting, with the forms: "gqa", "mla-absorbed"
  bool trained = false;        ///< true for the form that training uses
  bool decodes = false;        ///< true for the form that decoding chooses
  Index layers = 0;
  Count cache_elements_per_token = {};       ///< of rows of single tokens, before a window is full
  Count cache_elements = {};                 ///< at the context
  Count cache_bytes = 0;                     ///< at the context, of one sequence
  std::vector<Count> long_cache_bytes = {};  ///< at each of `long_contexts()`
  std::vector<std::string> notes = {};       ///< see attention_notes
};

/// Long contexts that a cost table shows besides the model's own: 4 k, 128 k and 1 M tokens.
std::span<const Index> long_contexts();

/// One row per form of each kind of attention with the sizes of `given`, and of its pattern, if
/// layers have several kinds in turn; kinds other than its own have those of `others`. Another
/// kind that does not fit the sizes is left out, and the reason added to `left_out`. Throws
/// ShapeError if the attention in `given` does not fit the sizes, and if no kind fits.
/// `latents` are settings of rows of MLA and DSA that are not the attention in `given`.
std::vector<CostRow> cost_table(const Given& given, const Given& others, Index context,
                                const CacheRounding& rounding, std::vector<std::string>& left_out,
                                const nlohmann::json& latents = nlohmann::json::object());

/// Settings of the latents that a released model would have with MLA: DeepSeek's, of 512 numbers
/// and a rotary key of 64.
nlohmann::json released_latents();

}  // namespace headcount
