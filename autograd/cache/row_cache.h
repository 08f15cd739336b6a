#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "autograd/arena.h"
#include "autograd/cache/cache_format.h"
#include "autograd/products/products.h"

namespace headcount {

/// Storage of a KV cache, which outlives a tape: for each sequence and head a ring buffer of
/// `capacity` rows of `width` numbers, one row per token; token t lies in slot
/// (t - first token) % capacity.
class RowCache {
 public:
  /// Allocates the cache, whose first token is usually that of the text. Throws std::bad_alloc, and
  /// ShapeError if the groups of `format` do not divide the width or rows cannot be rotated.
  RowCache(Index sequences, Index heads, Index width, Index capacity, const CacheFormat& format,
           Index first_token = 0);
  /// Allocates a cache as this one for tokens [first, end).
  RowCache for_tokens(Index first, Index end) const {
    return {sequences_, heads_, width_, end - first, format_, first};
  }

  Index sequences() const { return sequences_; }
  Index heads() const { return heads_; }
  Index width() const { return width_; }
  Index capacity() const { return capacity_; }
  Index first_token() const { return first_token_; }
  Index slot(Index token) const { return (token - first_token_) % capacity_; }
  /// Rows in use per sequence and head after `tokens` tokens of the text.
  Index held(Index tokens) const { return std::min(tokens - first_token_, capacity_); }
  /// Returns true if `tokens` tokens exceed the capacity: later rows have overwritten the first.
  bool overwritten(Index tokens) const { return tokens - first_token_ > capacity_; }
  /// Returns true if `read_stored` needs scratch.
  bool converts() const { return format_.type != CacheType::real || recent_ != nullptr; }
  /// Size of the blocks of columns in which rows are stored rotated; 1: they are not.
  Index block() const { return format_.rotated ? rotated_block(width_) : 1; }
  /// Returns true if a row stays as it is stored until a later token overwrites it.
  bool takes_many() const { return recent_ == nullptr; }

  /// Stores `row` [heads, width] of a token. With recent tokens, tokens come one by one. Throws
  /// NonFiniteError for a finite number that is too large for the type of the cache.
  void write(Index sequence, Index token, const Real* row);
  /// Copies the rows of tokens [first, end) from a cache that differs in its tokens alone.
  void copy_tokens(const RowCache& other, Index first, Index end);
  /// Columns [first, first + width) of slots [slot, slot + count) as Real, as they were written but
  /// for rounding: in place if stored so, else converted into `scratch` [count, width].
  ConstMatrix read(Index sequence, Index head, Index slot, Index count, Index first, Index width,
                   Real* scratch) const;
  /// As `read`, but columns as they are stored: blocks of `block()` columns are rotated.
  ConstMatrix read_stored(Index sequence, Index head, Index slot, Index count, Index first,
                          Index width, Real* scratch) const;
  /// All numbers [sequences, heads, capacity, width]; for CacheType::real only.
  std::span<Real> numbers();
  /// Copies sequence 0 of `other`, which has the same sizes, into every sequence of this cache.
  void copy_first(const RowCache& other);

  Index bytes() const;  ///< bytes allocated

 private:
  // Row of a slot among those that are packed.
  std::byte* row(Index sequence, Index head, Index slot) const {
    return numbers_.get() + ((sequence * heads_ + head) * packed_ + slot) * row_bytes_;
  }
  // Packs the row of a head of a token.
  void pack(Index sequence, Index head, Index token, const Real* numbers);
  // Reads columns of packed rows.
  void unpack(const std::byte* row, Index first, Index width, Real* to) const;

  Index sequences_, heads_, width_, capacity_, first_token_;
  CacheFormat format_;
  Index packed_;  // rows of a sequence and head that are packed
  Index row_bytes_;
  AlignedMemory numbers_;
  std::unique_ptr<RowCache> recent_;  // rows of the newest tokens; null: there are none
  Index newest_ = 0;                  // token written last
};

}  // namespace headcount
