#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "nn/layers.h"

namespace headcount {

struct Kept;

/// Settings of the language model except its attention.
struct ModelSettings {
  Index layers = 0;
  Index dim = 0;      ///< width of the residual stream
  Index context = 0;  ///< tokens of the longest sequence
  /// Hidden width. With 0, layers have neither a feed-forward layer nor its norm.
  Index ffn_dim = 0;
  NormKind norm = NormKind::rms;
  double norm_epsilon = 0;
  Activation activation = Activation::swiglu;
  bool tie_embeddings = false;
  bool bias = false;
  double logit_cap = 0;  ///< logits l become cap tanh(l / cap); 0: none

  void visit(const auto& setting);
};

/// Everything that defines the language model except its vocabulary, resolved.
struct ResolvedModel : ModelSettings {
  Unlisted unlisted;      ///< an epsilon of 0 stands for that of each kind
  std::string attention;  ///< value of the setting: "gqa", "mqa/share"
  std::string word;       ///< what people read: "gqa2", see attention_word, or "mqa/share"
  Positions positions =
      Positions::rope;               ///< learned if any layer's are; otherwise the first layer's
  std::vector<AttentionPlan> cycle;  ///< layer i has the attention at i % size
  /// For each index of `cycle` the index of the layer whose cache or picks it reads: its own, or an
  /// earlier one if it shares.
  std::vector<Index> writers;
  /// Settings that its layers use, with their values; resolving them gives this model again.
  nlohmann::ordered_json settings;

  const AttentionPlan& layer_attention(Index layer) const { return cycle[cycle_index(layer)]; }
  /// Index of a layer in `cycle`.
  Index cycle_index(Index layer) const { return layer % std::ssize(cycle); }
  /// The layer whose cache or picks a layer reads: itself, or an earlier one if it shares.
  Index writer(Index layer) const {
    return layer - cycle_index(layer) + writers[cycle_index(layer)];
  }
};

/// States of the Canon layers A, C and D of a block, outside of its attention, in the cache of its
/// layer: of "canonD_up" and others the last taps - 1 inputs of all channels.
std::vector<Kept> kept_by_block(const ResolvedModel& model, const AttentionPlan& layer);

/// Resolved model, constant. Only `resolve_model` makes one.
class ModelPlan {
 public:
  const ResolvedModel* operator->() const { return model_.get(); }
  const ResolvedModel& operator*() const { return *model_; }

 private:
  friend ModelPlan resolve_model(const Given&, const Unlisted&);
  explicit ModelPlan(ResolvedModel model)
      : model_(std::make_shared<const ResolvedModel>(std::move(model))) {}

  std::shared_ptr<const ResolvedModel> model_;
};

/// The setting `attention`, the settings of attentions, then those of the model.
const SettingList& model_settings();

/// Resolves the model's settings in `given`, with defaults for the rest. Throws ShapeError that
/// names the settings which do not fit together, and the part of a pattern that does not fit.
ModelPlan resolve_model(const Given& given, const Unlisted& unlisted = {});
/// Settings of the model in `given`, without its attention's.
ModelSettings read_model_settings(const Given& given);
/// Sizes and properties that an attention layer gets from its model.
LayerPlace layer_place(const ModelSettings& model, const Unlisted& unlisted = {});

/// Notes on the attentions of the model (see attention_notes), each once.
std::vector<std::string> attention_notes(const ModelPlan& plan);

/// Settings that a model keeps when its attention is replaced. Dropped: settings of its kind alone,
/// the numbers in its word, and sizes at a default that another kind may not share. Throws
/// SettingError for an attention that cannot be parsed.
Given for_another_attention(const Given& given);

/// Model `plan` with other values of these settings. Throws SettingError, and ShapeError as
/// resolve_model does.
ModelPlan with_settings(const ModelPlan& plan, const nlohmann::json& settings);

}  // namespace headcount
