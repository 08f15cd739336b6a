#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/cost/model_cache.h"
#include "nn/attention/costs.h"

namespace headcount {

/// A model, or an attention, with its cache and, where its layers can be run dry, their costs.
struct CostRow {
  std::string name;  ///< "llama-3.1-8b"; of an attention the setting, with the form: "mla-absorbed"
  ModelCache cache;
  std::optional<Costs> costs = {};     ///< of all layers, with their blocks' Canon layers
  bool is_form = false;                ///< another form of the row before, with the same cache
  std::optional<Index> replaced = {};  ///< of `rows_beside`: layers that have the attention
  std::string source = {};             ///< of a released model: where its sizes stand

  /// The name, with how many layers have the attention if not all do: "mla in 4 of 32 layers".
  std::string label() const;
};

/// A row for each form of the model's layers, with the costs at `context`; layers with fewer forms
/// count with their last form. A window limits the keys that are read.
std::vector<CostRow> cost_rows(const ModelPlan& model, const std::string& name, Index context);

/// The model `own` with another attention, a value of the setting, whose parts take turns in the
/// layers that are replaced, each window by itself: the heads of all of them, in their windows, by
/// an attention with KV heads, the layers that read all tokens by another one. States, shared
/// layers, keys of indexers beside KV heads and values narrower than keys stay. An attention of
/// latents without numbers has those of the model's; of other defaults there is a note. `known` are
/// the settings of `own`; without them there are no costs, nor if a layer or a window stays. Throws
/// SettingError for an attention that does not fit the sizes, and if the model has no heads.
std::vector<CostRow> rows_beside(const ModelCache& own, const std::string& attention, Index context,
                                 const std::optional<Given>& known = {});

}  // namespace headcount
