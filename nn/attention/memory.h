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

/// What one layer keeps under one name: `heads` rows of `width` numbers, of each token or, where a
/// state takes in all tokens, of each sequence.
struct Kept {
  std::string name;
  Index heads, width;
  bool per_sequence = false;
};

/// What a cache is made for.
struct CacheOptions {
  Index sequences = 1;
  Index capacity = 0;                ///< tokens; a layer with a window holds no more than that
  CacheType type = CacheType::real;  ///< of what is kept of tokens; states are always Real
  std::string form = {};  ///< how the layer is to decode: see AttentionForm; empty: it chooses
};

/// What one layer keeps of the tokens so far: one RowCache for each `Kept`, for a state with one
/// row per head. A state is rewritten by every token, so that roundings would add up: it stays
/// Real.
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

  /// Makes every sequence here a copy of sequence 0 of `other`, which was made alike.
  void copy_first(const LayerCache& other);

 private:
  std::size_t place(std::string_view name, bool per_sequence) const;

  std::vector<Kept> keeps_;
  std::vector<RowCache> rows_;
  Index capacity_, length_ = 0;
  std::string form_;
};

/// What a layer's tokens leave behind, and where the layer reads what earlier ones left. A layer
/// computes the same whichever of the two it is given:
///  - in training, and where whole texts are evaluated: these tokens are all there is, and rows are
///    the tape's own values, with their gradients;
///  - in decoding: rows join those of earlier tokens in a cache, and all that it holds comes back,
///    in the form it is stored in, without a copy. There are no gradients then.
class Memory {
 public:
  /// Of whole texts. `key_mask` [B, T] has 1 where a token may be attended to; empty: everywhere.
  /// Attention adds to `stats` if given.
  explicit Memory(std::span<const std::uint8_t> key_mask = {}, AttentionStats* stats = nullptr)
      : key_mask_(key_mask), stats_(stats) {}
  /// Of new tokens after those in `cache`, to which `keep` adds their rows; the caller then sets
  /// the cache's length.
  explicit Memory(LayerCache& cache) : cache_(&cache) {}
  /// Of a layer that `shares`, with stats of its own: it reads what the layer of `earlier` has just
  /// kept.
  static Memory sharing(const Memory& earlier, AttentionStats* stats = nullptr);

  /// These tokens' rows x [B, T, heads, width] join those of earlier tokens: all of them, for
  /// `attention` or `read_rows`. Throws ShapeError where the layer declares other rows under that
  /// name, and where x needs a gradient that a cache would lose.
  Rows keep(std::string_view name, Var x);
  /// The same with the rows that `make` returns. A layer that shares has no projections to make
  /// them: it gets the rows that the earlier layer kept under that name, and `make` is not called.
  template <std::invocable Make>
  Rows keep(std::string_view name, const Make& make) {
    return shares_ ? shared(name) : keep(name, make());
  }

  /// What the layer declares to keep of each sequence under that name [B, heads, width], as the
  /// tokens before these left it, zeros before the first; what computes these tokens writes there
  /// what they leave. Empty where these tokens are all there is.
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
