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
  std::string defaults = {};  ///< the attention, with numbers that are defaults: "mla192+64"
  std::string source = {};    ///< of a released model: where its sizes stand

  /// The name, of a long pattern its ends, with how many layers have the attention if not all do:
  /// "mla in 4 of 32 layers".
  std::string label() const;
};

/// A row for each form of the model's layers, with the costs at `context`; layers with fewer forms
/// count with their last form. A window limits the keys that are read.
std::vector<CostRow> cost_rows(const ModelPlan& model, const std::string& name, Index context);

/// The model `own`, also as engines hold it that expand its latents. `known` are its settings;
/// without them there are no costs.
std::vector<CostRow> cost_rows(const ModelCache& own, const std::string& name, Index context,
                               const std::optional<Given>& known = {});

/// Settings that a model keeps when `attention`, a value of the setting, replaces its own (see
/// for_another_attention): all of them from latents to latents, no settings of scores if the new
/// one has no scores.
Given settings_beside(const Given& known, const std::string& attention);

/// The model `own` with another `attention`, a value of the setting, in place of its heads:
///     - An attention with KV heads replaces the heads of all layers, which keep their windows. Any
///       other attention replaces only the layers that read all tokens.
///     - The parts of a pattern take turns in the layers that have one window.
///     - States, layers that share, keys of indexers beside KV heads, and values narrower than keys
///       stay.
///     - An attention of latents has the latents of `own`, if any, except for numbers in its word.
///
/// Costs need `known`, the settings of `own`, and that all layers are replaced. Throws SettingError
/// for an attention that does not fit the sizes, and if the model has no heads.
std::vector<CostRow> rows_beside(const ModelCache& own, const std::string& attention, Index context,
                                 const std::optional<Given>& known = {});

}  // namespace headcount
