#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "autograd/row_cache.h"

namespace headcount {

/// Part of a layer's cache under one name: `heads` rows of `width` numbers, for each token or, if
/// it is a state that takes in all tokens, for each sequence.
struct Kept {
  std::string name;
  Index heads, width;
  bool per_sequence = false;
};

/// Sizes and form of a cache.
struct CacheOptions {
  Index sequences = 1;
  Index capacity = 0;                ///< tokens; a layer with a window holds at most the window
  CacheType type = CacheType::real;  ///< type of rows per token; states are always Real
  std::string form = {};  ///< how the layer decodes: see AttentionForm; empty: it chooses
};

/// KV cache of one layer: one RowCache for each `Kept`; that of a state has one row per head. A
/// state is rewritten by every token, so that roundings would add up: it stays Real.
class LayerCache {
 public:
  LayerCache(std::vector<Kept> keeps, const CacheOptions& options);

  Index length() const { return length_; }  ///< tokens written; the last `capacity` are held
  Index capacity() const { return capacity_; }
  void set_length(Index tokens) { length_ = tokens; }
  const std::string& form() const { return form_; }
  Index bytes() const;  ///< allocated

  /// The rows under that name. Throws ShapeError if the layer declares none.
  RowCache& rows(std::string_view name);
  /// The state under that name [sequences, heads, width]. Throws ShapeError if the layer declares
  /// none.
  std::span<Real> state(std::string_view name);
  const RowCache& rows(std::string_view name) const;
  const std::vector<Kept>& keeps() const { return keeps_; }

  /// Copies sequence 0 of `other`, which was made with equal sizes, into every sequence here.
  void copy_first(const LayerCache& other);

 private:
  std::size_t place(std::string_view name, bool per_sequence) const;

  std::vector<Kept> keeps_;
  std::vector<RowCache> rows_;
  Index capacity_, length_ = 0;
  std::string form_;
};

/// Interface through which a layer keeps rows of its tokens and reads those of earlier tokens. A
/// layer computes the same function whichever of the two kinds it is given:
///
///     - for whole texts, in training and evaluation: there are no earlier tokens, and rows are
///       values on the tape, with their gradients;
///     - for decoding: rows join those of earlier tokens in a cache. The cached rows come back in
///       the type they are stored in, without a copy and without gradients.
class Memory {
 public:
  /// Memory for whole texts. `key_mask` [B, T] has 1 where a token may be attended to; empty:
  /// everywhere. Attention adds to `stats` if given.
  explicit Memory(std::span<const std::uint8_t> key_mask = {}, AttentionStats* stats = nullptr)
      : key_mask_(key_mask), stats_(stats) {}
  /// Memory for new tokens after those in `cache`, to which `keep` adds their rows; the caller then
  /// sets the cache's length.
  explicit Memory(LayerCache& cache) : cache_(&cache) {}
  /// Memory for a layer that `shares`, with `stats` of its own: it reads the rows that the layer of
  /// `earlier` has just kept.
  static Memory sharing(const Memory& earlier, AttentionStats* stats = nullptr);

  /// Keeps these tokens' rows x [B, T, heads, width] and returns them with those of earlier tokens,
  /// for `attention` or `read_rows`. Throws ShapeError if the layer declares other rows under that
  /// name, or if x needs a gradient that a cache would lose.
  Rows keep(std::string_view name, Var x);
  /// Keeps the rows that `make` returns. For a layer that shares, `make` is not called, since such
  /// a layer has no projections: it gets the rows that the earlier layer kept under that name.
  template <std::invocable Make>
  Rows keep(std::string_view name, const Make& make) {
    return shares_ ? shared(name) : keep(name, make());
  }

  /// State of each sequence under that name [B, heads, width] as the tokens before these left it,
  /// zeros before the first token. Whoever computes these tokens overwrites it with the state after
  /// them. Empty if this memory is for whole texts.
  std::span<Real> state(std::string_view name);

  Index first_position() const { return cache_ == nullptr ? 0 : cache_->length(); }
  std::span<const std::uint8_t> key_mask() const { return key_mask_; }
  AttentionStats* stats() const { return stats_; }
  std::string_view form() const { return cache_ == nullptr ? std::string_view() : cache_->form(); }

 private:
  Rows shared(std::string_view name) const;
  Rows store(std::string_view name, Var x);

  LayerCache* cache_ = nullptr;
  std::span<const std::uint8_t> key_mask_;
  AttentionStats* stats_ = nullptr;
  std::vector<std::pair<std::string, Rows>> kept_;
  bool shares_ = false;
};

}  // namespace headcount
