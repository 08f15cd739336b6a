#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/count.h"
#include "autograd/cache/row_cache.h"
#include "autograd/tape.h"
#include "nn/attention/cache_rounding.h"

/// What decoding stores of a layer's tokens. A layer sees it through a Memory.
namespace headcount {

/// Named part of a layer's cache: `heads` rows of `width` numbers per token, per block of `block`
/// tokens, or per sequence for a recurrent state.
struct Kept {
  std::string name;
  Index heads, width;
  bool per_sequence = false;
  bool exact = false;  ///< rows per token that are never rounded
  /// Tokens that a pooled row stands for, whatever the window; 0: rows are those of single tokens.
  /// With `per_sequence`, inputs of a block of so many tokens that is not complete yet.
  Index block = 0;

  std::int64_t numbers() const { return std::int64_t{heads} * width; }
};

/// A dry pass of a layer (see Tape): its position in a text, and what the layer caches.
struct DryPass {
  Tape& tape;
  Index tokens = 1;          ///< of this pass
  Index first_position = 0;  ///< tokens before them
  bool decodes = false;      ///< rows come from a cache; otherwise from the tape
  Index window = 0;          ///< tokens of which the cache holds rows; 0: all
  std::string form = {};     ///< see CacheOptions
  std::vector<Kept> keeps = {};
  bool reads_other = false;  ///< set if the layer reads rows of the layer that it shares with
};

/// Sizes and form of a cache.
struct CacheOptions {
  Index sequences = 1;
  Index capacity = 0;  ///< tokens
  CacheRounding rounding = {};
  std::string form = {};  ///< one of `attention_forms`; empty: the layer chooses
  /// Tokens of which rows are held at most; 0: all. `make_cache` sets it from the plan.
  Index window = 0;
};

/// Bytes of the cache of a layer that keeps `keeps`, whose rows of recent tokens are `unrounded`.
Count cached_bytes(std::span<const Kept> keeps, const CacheOptions& options,
                   CacheType unrounded = CacheType::real);

/// KV cache of one layer: one RowCache for each `Kept`. Every token rewrites a state, so that
/// roundings would add up: states are stored as Real.
class LayerCache {
 public:
  LayerCache(std::vector<Kept> keeps, const CacheOptions& options);

  Index length() const { return length_; }  ///< tokens so far
  /// Makes `tokens` the number of tokens so far: 0 forgets them. Who appends tokens calls it once
  /// all layers have computed them.
  void set_length(Index tokens) { length_ = tokens; }
  /// Throws ShapeError if `tokens` tokens cannot be appended at a time.
  void require_takes(Index tokens) const;
  const std::string& form() const { return form_; }
  Index bytes() const;  ///< bytes allocated

  /// Cache of the rows per token or per block named `name`. Throws ShapeError if the layer declares
  /// none under that name.
  RowCache& rows(std::string_view name) { return find(name, Per::token); }
  /// State [sequences, heads, width]. Throws ShapeError if the layer declares none under that name.
  std::span<Real> state(std::string_view name) { return find(name, Per::sequence).numbers(); }
  const std::vector<Kept>& keeps() const { return keeps_; }

  /// Copies sequence 0 of `other`, which has the same sizes, into every sequence of this cache.
  void copy_first(const LayerCache& other);

 private:
  enum class Per { token, sequence };
  RowCache& find(std::string_view name, Per per);

  std::vector<Kept> keeps_;
  std::vector<RowCache> rows_;
  Index length_ = 0;
  std::string form_;
};

}  // namespace headcount
