#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "nn/attention/memory.h"

/// The KV cache of a model from its Hugging Face configuration, a config.json, alone: what each
/// layer keeps of a sequence. The layers need not be ones that this program can train.
namespace headcount {

/// What one layer keeps of one sequence.
struct CachedLayer {
  std::string kind;  ///< "full attention", "window of 4096", "state"
  /// Rows, states and the inputs of convolutions, named as this program's attentions name theirs.
  std::vector<Kept> parts = {};
  Index window = 0;  ///< newest tokens that keep rows of their own; 0: all tokens
  /// Parts in engines that hold a latent as keys and values of all heads; empty: `parts`.
  std::vector<Kept> expanded_parts = {};

  /// Returns true if a part has rows of the newest tokens alone.
  bool is_windowed(const Kept& kept) const {
    return window > 0 && kept.block == 0 && !kept.per_sequence;
  }
  /// Numbers that a token adds, before windows are full: of a row of many tokens, its share.
  double per_token() const;
  double once() const;     ///< numbers of states and convolutions
  Index kv_heads() const;  ///< that tensor parallelism can share out; 0: none
};

/// Numbers or bytes of one sequence, over all layers. Bytes of states are those of float32 in
/// caches of every type.
struct CacheSizes {
  double growing = 0;   ///< rows of all tokens
  double windowed = 0;  ///< rows of the newest tokens
  double once = 0;      ///< states and inputs of convolutions
  double total() const { return growing + windowed + once; }
};

/// The cache of a model, layer by layer.
struct ConfigCache {
  std::string type;  ///< `model_type` whose rules were used
  std::vector<CachedLayer> layers;
  Index width = 0, heads = 0, head_dim = 0;  ///< of attention; 0 if there is none
  Index context = 0;                         ///< positions of the model; 0: not said

  CacheSizes numbers(Index context) const;  ///< after `context` tokens
  /// Bytes of the same. Rows of recent tokens are unrounded: bf16. Throws ShapeError as row_bytes.
  CacheSizes bytes(Index context, const CacheRounding& rounding) const;
  /// Bytes that a token adds, before windows are full, without recent tokens.
  double bytes_per_token(const CacheRounding& rounding) const;
  /// Throws SettingError for a part of `rounding` that no layer keeps, ShapeError for a group that
  /// does not divide its rows, expanded ones included.
  void require_fit(const CacheRounding& rounding) const;
  double per_token() const;  ///< as CachedLayer::per_token, over all layers
  Index kv_heads() const;    ///< the most of a layer; 0: none has any
  bool has_latents() const;
  /// The model with its latents held as keys and values of all heads.
  ConfigCache expanded() const;
  /// The model if its layers of most KV heads had `most`, others in proportion, rounded up.
  ConfigCache with_kv_heads(Index most) const;
  /// The share of one of `shards` GPUs: KV heads are shared out, and copied where there are fewer
  /// of them than GPUs; latents are copied; states are shared out by heads.
  ConfigCache of_shard(Index shards) const;
};

/// Reads a configuration. Keys that are missing have the defaults of transformers' class; the
/// configuration of the text in a multimodal one is found. `as` names the type whose rules apply
/// instead of `model_type`. Throws DataError that names a key whose value cannot be, and the
/// nearest known type if the type is unknown.
ConfigCache read_config_cache(const nlohmann::json& config, const std::string& as = "");

}  // namespace headcount
