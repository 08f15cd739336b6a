#pragma once

#include "nn/attention/kind.h"
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
  AttentionConfig attention;  ///< dim, positions, bias, dropout are taken from the model's

  /// Fills in all defaults, the attention's too. Throws ShapeError that names the flags which do
  /// not fit together.
  void resolve();
  /// The settings, bound to this object: see Settings.
  Settings settings();
  Settings settings() const;  ///< for reading
};

/// Settings of `config` that mean something for its attention, with their values; `config` is
/// resolved. Reading them into a new ModelConfig and resolving it gives `config` again.
nlohmann::ordered_json to_json(const ModelConfig& config);

}  // namespace headcount
