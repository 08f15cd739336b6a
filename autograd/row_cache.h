#pragma once

#include <algorithm>
#include <span>

#include "autograd/arena.h"
#include "autograd/products.h"

namespace headcount {

/// Number type of a KV cache.
enum class CacheType {
  real,  ///< as computed: float32 in the float library
  f16,   ///< IEEE half
  bf16,  ///< bfloat16: the upper half of a float32, rounded to nearest even
  int8,  ///< x = scale q with q in -127 .. 127; one float32 scale per row
};

/// Bytes of `elements` numbers in `rows` rows, with the scales of the rows.
Index cache_bytes(CacheType type, Index elements, Index rows);

/// Storage of a KV cache, which outlives a tape: for each sequence and head a ring buffer of
/// `capacity` rows of `width` numbers, one row per token; token t lies in slot
/// (t - first token) % capacity.
class RowCache {
 public:
  /// Allocates the cache, whose first token is usually that of the text. Throws std::bad_alloc.
  RowCache(Index sequences, Index heads, Index width, Index capacity, CacheType type,
           Index first_token = 0);
  /// Allocates a cache as this one for tokens [first, end).
  RowCache for_tokens(Index first, Index end) const {
    return {sequences_, heads_, width_, end - first, type_, first};
  }

  Index sequences() const { return sequences_; }
  Index heads() const { return heads_; }
  Index width() const { return width_; }
  Index capacity() const { return capacity_; }
  Index first_token() const { return first_token_; }
  Index slot(Index token) const { return (token - first_token_) % capacity_; }
  /// Rows in use per sequence and head after `tokens` tokens of the text.
  Index held(Index tokens) const { return std::min(tokens - first_token_, capacity_); }
  /// Returns true if, after `tokens` tokens of the text, the first rows are those of later ones.
  bool overwritten(Index tokens) const { return tokens - first_token_ > capacity_; }
  bool converts() const { return type_ != CacheType::real; }  ///< if so, `read` needs scratch

  /// Stores `row` [heads, width] of a token. Throws NonFiniteError for a finite number that is too
  /// large for the type of the cache.
  void write(Index sequence, Index token, const Real* row);
  /// Copies the rows of tokens [first, end) from a cache that differs in its tokens alone.
  void copy_tokens(const RowCache& other, Index first, Index end);
  /// Columns [first, first + width) of slots [slot, slot + count) as Real: in place if stored as
  /// Real, else converted into `scratch` [count, width].
  ConstMatrix read(Index sequence, Index head, Index slot, Index count, Index first, Index width,
                   Real* scratch) const;
  /// All numbers [sequences, heads, capacity, width]; for CacheType::real only.
  std::span<Real> numbers();
  /// Copies sequence 0 of `other`, which has the same sizes, into every sequence of this cache.
  void copy_first(const RowCache& other);

  Index bytes() const { return bytes_; }  ///< bytes allocated

 private:
  Index row_index(Index sequence, Index head, Index slot) const {
    return (sequence * heads_ + head) * capacity_ + slot;
  }
  std::byte* row(Index index) const { return numbers_.get() + index * row_bytes_; }
  float* scale(Index index) const { return reinterpret_cast<float*>(scales_.get()) + index; }
  // Copies `count` rows of `other` from row `from` on to row `to` and those after it.
  void copy_rows(const RowCache& other, Index from, Index to, Index count);

  Index sequences_, heads_, width_, capacity_, first_token_;
  CacheType type_;
  Index row_bytes_, bytes_;
  AlignedMemory numbers_, scales_;
};

}  // namespace headcount
