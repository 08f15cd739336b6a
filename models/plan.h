#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "nn/layers.h"

namespace headcount {

enum class Positions {
  rope,     ///< rotary, inside attention
  learned,  ///< one vector per position, added to the embeddings
  none,
};

/// The settings of the language model but its attention.
struct ModelSettings {
  Index layers = 4;
  Index dim = 128;      ///< width of the residual stream
  Index context = 256;  ///< tokens of the longest sequence
  Index ffn_dim = 0;    ///< default 4 dim with GELU; 8/3 dim, rounded up to 8, with SwiGLU
  Positions positions = Positions::rope;
  NormKind norm = NormKind::rms;
  double norm_epsilon = 0;  ///< default 1e-6 for RMSNorm, 1e-5 for LayerNorm
  Activation activation = Activation::swiglu;
  bool tie_embeddings = false;
  bool bias = false;
};

/// Everything that defines the language model but its vocabulary, settled.
struct ResolvedModel : ModelSettings {
  std::string attention;             ///< as the setting says it: "gqa", "mqa/share"
  std::vector<AttentionPlan> cycle;  ///< layer i has the one at i % size
  /// The settings that its layers use, with their values; resolving them gives this model again.
  nlohmann::ordered_json settings;

  const AttentionPlan& layer_attention(Index layer) const {
    return cycle[static_cast<std::size_t>(layer) % cycle.size()];
  }
};

/// A resolved model, which nobody changes. `resolve_model` alone makes one.
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

/// `attention`, the settings of attentions, then those of the model.
const SettingList& model_settings();

/// The model of what is given, of which the model's settings count, with defaults for the rest.
/// Throws ShapeError that names the settings which do not fit
/// together, and the part of a pattern that does not fit.
ModelPlan resolve_model(const Given& given, const Unlisted& unlisted = {});
/// The settings but the attention's, of which some may still be open: 0.
ModelSettings read_model_settings(const Given& given);
/// What a layer has from its model.
LayerPlace layer_place(const ModelSettings& model, const Unlisted& unlisted = {});

/// Settings that whoever knows only those of `listed` would lose: names of those in `settings`, of
/// a model whose layers are all alike, that are not what they are where only the listed ones are
/// given.
std::vector<std::string> settings_beyond(const nlohmann::ordered_json& settings,
                                         std::span<const std::string_view> listed);

/// The same model but for these settings. Throws as resolve_model, and SettingError.
ModelPlan with_settings(const ModelPlan& plan, const nlohmann::json& settings);

}  // namespace headcount
