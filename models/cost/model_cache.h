#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/plan.h"
#include "nn/attention/layer_cache.h"

/// The KV cache of a model: what each layer keeps of a sequence. It is that of a model that this
/// program makes, or of a configuration (see config_cache.h).
namespace headcount {

/// What one layer keeps of one sequence.
struct CachedLayer {
  std::string kind;  ///< "full attention", "window of 4096", "state"; the name of a plan's kind
  /// Rows, states and the inputs of convolutions.
  std::vector<Kept> parts = {};
  Index window = 0;  ///< tokens of the sliding window, whose rows are cached; 0: all tokens
  /// Parts in engines that hold a latent as keys and values of all heads; empty: `parts`.
  std::vector<Kept> expanded_parts = {};
  Index heads = 0;  ///< query heads; 0: those of the model

  /// Part of that name; null if there is none.
  const Kept* part(std::string_view name) const;
  /// Returns true if `kept` has rows of the window's tokens alone.
  bool is_windowed(const Kept& kept) const {
    return window > 0 && kept.block == 0 && !kept.per_sequence;
  }
  double once() const;  ///< numbers of states and convolutions
  bool has_rows() const;
  bool has_state() const;  ///< recurrent; cached inputs of convolutions and blocks are no state
  Index kv_heads() const;  ///< that tensor parallelism can share out; 0: none
};

/// Numbers or bytes of one sequence, over all layers.
struct CacheSizes {
  Count growing;   ///< rows of all tokens
  Count windowed;  ///< rows of tokens within a window
  Count once;      ///< states and inputs of convolutions
  Count total() const { return growing + windowed + once; }
};

/// Bytes of one number of `kept`, with its share of the group's scale, under the layer's
/// `rounding`.
double bytes_of_number(const Kept& kept, const CacheRounding& rounding);

/// The cache of a model, layer by layer.
struct ModelCache {
  std::string type = {};  ///< `model_type` whose rules were used; a plan's attention
  std::vector<CachedLayer> layers = {};
  CacheType unrounded = CacheType::real;     ///< type of the rows of recent tokens
  Index width = 0, heads = 0, head_dim = 0;  ///< of a configuration's attention; 0: it has none
  Index context = 0;                         ///< positions of a configuration; 0: not said
  /// Sentences: each size that the file did not give and what stood in for it, and what else the
  /// reader must know.
  std::vector<std::string> notes = {};
  /// Layers of the draft head (num_nextn_predict_layers), which `--mtp` adds.
  std::vector<CachedLayer> draft = {};

  CacheSizes numbers(Index tokens) const;  ///< after so many tokens
  /// Bytes after so many tokens. Throws ShapeError as row_bytes, and if they overflow 64 bits.
  CacheSizes bytes(Index tokens, const CacheRounding& rounding) const;
  /// Bytes that a token adds, before windows are full, without recent tokens.
  double bytes_per_token(const CacheRounding& rounding) const;
  /// Throws SettingError for a part of `rounding` that no layer keeps and for a layer that the
  /// model lacks, ShapeError for a group that does not divide its rows, expanded ones included.
  void require_fit(const CacheRounding& rounding) const;
  /// Numbers that a token adds, before windows are full: of a row of many tokens, its share.
  double per_token() const { return bytes_per_token(CacheType::real) / sizeof(Real); }
  Index kv_heads() const;  ///< the most of a layer; 0: none has any
  bool has_latents() const;
  /// The model with its latents held as keys and values of all heads, without notes.
  ModelCache expanded() const;
  ModelCache with_draft() const;  ///< with the layers of `draft` behind the others
  /// The share of one of `shards` GPUs: heads are shared out, and copied where there are fewer of
  /// them than GPUs, as is a latent; states are shared out by heads, factors are copied. A note
  /// says so if GPUs have unequal shares.
  ModelCache of_shard(Index shards) const;
};

/// The cache of this program's model, with its notes (see attention_notes). A layer that reads
/// another layer's cache keeps no rows.
ModelCache cache_of(const ModelPlan& model);

/// Bytes of the KV cache of one sequence of `context` tokens. Throws what
/// ModelCache::require_fit throws.
Count kv_cache_bytes(const ModelPlan& model, Index context, const CacheRounding& rounding = {});
/// Bytes of the KV cache per token of a sequence as long as the model's context.
double kv_cache_bytes_per_token(const ModelPlan& model, const CacheRounding& rounding = {});

}  // namespace headcount
