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

/// Rows that a layer keeps of the tokens of one sequence.
struct CachedRows {
  std::string name;         ///< "keys and values", "latents", "index keys", "rows", "pooled rows"
  std::vector<Kept> parts;  ///< of a row, named as this program's attentions name theirs
  Index window = 0;         ///< newest tokens that keep their rows; 0: all tokens
  Index block = 1;          ///< tokens that one row stands for
  /// Parts in engines that hold a latent as keys and values of all heads; equal to `parts` where
  /// there is no latent.
  std::vector<Kept> expanded = parts;

  /// Rows after `context` tokens.
  Count count(Index context) const;
  /// Numbers of a row; `as_expanded`: of its expanded parts.
  Count numbers(bool as_expanded = false) const;
  /// Bytes of so many rows, of which those of the newest tokens may be unrounded: bf16. Throws
  /// ShapeError as row_bytes.
  double bytes(Count rows, const CacheRounding& rounding, bool as_expanded = false) const;
};

/// What one layer keeps of one sequence.
struct CachedLayer {
  std::string kind;  ///< "full attention", "window of 4096", "state"
  std::vector<CachedRows> rows;
  Count state;         ///< numbers, once a sequence
  Count channels;      ///< of causal convolutions, whose last taps - 1 inputs are kept
  Index taps = 1;      ///< of the convolutions
  Index kv_heads = 0;  ///< that tensor parallelism can share out; 0: none

  Count convolutions() const { return channels * (taps - 1); }
  /// Numbers that a token adds, before windows are full: of a row of many tokens, its share.
  /// `expanded` as CachedRows::expanded.
  double per_token(bool expanded = false) const;
  /// The layer with this many KV heads, as wide as before; nothing changes if it has none.
  void set_kv_heads(Index heads);
};

/// Numbers of one sequence, over all layers.
struct CacheNumbersOf {
  Count growing;   ///< rows of all tokens
  Count windowed;  ///< rows of the newest tokens
  Count once;      ///< states and inputs of convolutions
  Count total() const { return growing + windowed + once; }
};
/// Bytes of the same; states are float32 in caches of every type.
struct CacheBytesOf {
  double growing = 0, windowed = 0, once = 0;
  double total() const { return growing + windowed + once; }
};

/// The cache of a model, layer by layer.
struct ConfigCache {
  std::string type;  ///< `model_type` whose rules were used
  std::vector<CachedLayer> layers;
  Index width = 0, heads = 0, head_dim = 0;  ///< of attention; 0 if there is none
  Index context = 0;                         ///< positions of the model; 0: not said

  /// Numbers after `context` tokens; `expanded` as CachedRows::expanded.
  CacheNumbersOf numbers(Index context, bool expanded = false) const;
  CacheBytesOf bytes(Index context, const CacheRounding& rounding, bool expanded = false) const;
  /// Bytes that a token adds, before windows are full, without recent tokens.
  double bytes_per_token(const CacheRounding& rounding, bool expanded = false) const;
  /// Throws SettingError for a part of `rounding` that no layer keeps, ShapeError for a group that
  /// does not divide its rows.
  void require_fit(const CacheRounding& rounding) const;
  /// As CachedLayer::per_token, over all layers; `expanded` as CachedRows::expanded.
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
