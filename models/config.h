#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention_spec.h"
#include "nn/layers.h"
#include "nn/settings.h"

namespace headcount {

enum class Positions {
  rope,     ///< rotary, inside attention
  learned,  ///< one vector per position, added to the embeddings
  none,
};

/// Everything that defines the language model but its vocabulary.
struct ModelConfig {
  Index layers = 4;
  Index dim = 128;         ///< width of the residual stream
  Index context = 256;     ///< tokens of the longest sequence
  Index ffn_dim = kUnset;  ///< default 4 dim with GELU; 8/3 dim, rounded up to 8, with SwiGLU
  Positions positions = Positions::rope;
  NormKind norm = NormKind::rms;
  double norm_epsilon = kUnset;  ///< default 1e-6 for RMSNorm, 1e-5 for LayerNorm
  Activation activation = Activation::swiglu;
  bool tie_embeddings = false;
  bool bias = false;
  double dropout = 0;
  /// What the attention of all layers has; dim, positions, bias, dropout are taken from the
  /// model's.
  AttentionConfig attention;
  /// The cycle that layers go through where they are not alike: it adds to `attention`, whose kind
  /// says nothing then.
  std::vector<LayerSpec> pattern;
  /// The resolved attentions of one cycle: layer i has the one at i % size.
  std::vector<AttentionConfig> cycle;

  /// Fills in all defaults, the attention's too. Throws ShapeError that names the flags which do
  /// not fit together, and the part of a pattern that does not fit.
  void resolve();
  /// Gives all layers that window; `resolve` comes after.
  void set_window(Index window);
  /// The attention of a layer; the configuration is resolved.
  const AttentionConfig& layer_attention(Index layer) const {
    return cycle[static_cast<std::size_t>(layer) % cycle.size()];
  }
  /// Which attention, as the setting says it: "gqa", "mqa/share".
  std::string attention_text() const;
  /// Whether a setting has a value and some layer takes it.
  bool uses(const Setting& setting) const;
  /// The settings, bound to this object: see Settings.
  Settings settings();
  Settings settings() const;  ///< for reading
};

/// Settings of `config` that its layers use, with their values; `config` is resolved. Reading them
/// into a new ModelConfig and resolving it gives `config` again.
nlohmann::ordered_json to_json(const ModelConfig& config);

/// A model whose layers are all as layer `layer` of `config`, which is resolved.
ModelConfig model_of_layer(const ModelConfig& config, Index layer);

/// Settings that whoever knows only those of `listed` would lose: names of the settings of `config`
/// whose values are not what they are where only the listed ones are given. `config` is resolved
/// and has no pattern.
std::vector<std::string> settings_beyond(const ModelConfig& config,
                                         std::span<const std::string_view> listed);

}  // namespace headcount
