#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/base/count.h"
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

  const std::vector<Kept>& held(bool expanded) const {
    return expanded && !expanded_parts.empty() ? expanded_parts : parts;
  }
  /// Returns true if a part has rows of the newest tokens alone.
  bool is_windowed(const Kept& kept) const {
    return window > 0 && kept.block == 0 && !kept.per_sequence;
  }
  /// Numbers that a token adds, before windows are full: of a row of many tokens, its share.
  double per_token(bool expanded = false) const;
  Count once() const;      ///< numbers of states and convolutions
  Index kv_heads() const;  ///< that tensor parallelism can share out; 0: none
};

/// Numbers or bytes of one sequence, over all layers. Bytes of states are those of float32 in
/// caches of every type.
template <class Size>
struct CacheSizes {
  Size growing = 0;   ///< rows of all tokens
  Size windowed = 0;  ///< rows of the newest tokens
  Size once = 0;      ///< states and inputs of convolutions
  Size total() const { return growing + windowed + once; }
};
using CacheNumbersOf = CacheSizes<Count>;
using CacheBytesOf = CacheSizes<double>;

/// The cache of a model, layer by layer.
struct ConfigCache {
  std::string type;  ///< `model_type` whose rules were used
  std::vector<CachedLayer> layers;
  Index width = 0, heads = 0, head_dim = 0;  ///< of attention; 0 if there is none
  Index context = 0;                         ///< positions of the model; 0: not said

  /// Numbers after `context` tokens, of CachedLayer::held(expanded).
  CacheNumbersOf numbers(Index context, bool expanded = false) const;
  /// Bytes of the same. Rows of recent tokens are unrounded: bf16. Throws ShapeError as row_bytes.
  CacheBytesOf bytes(Index context, const CacheRounding& rounding, bool expanded = false) const;
  /// Bytes that a token adds, before windows are full, without recent tokens.
  double bytes_per_token(const CacheRounding& rounding, bool expanded = false) const;
  /// Throws SettingError for a part of `rounding` that no layer keeps, ShapeError for a group that
  /// does not divide its rows, expanded ones included.
  void require_fit(const CacheRounding& rounding) const;
  /// As CachedLayer::per_token, over all layers.
  double per_token(bool expanded = false) const;
  bool has_latents() const;
  Index kv_heads() const;  ///< the most of a layer; 0: none has any
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
