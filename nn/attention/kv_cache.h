#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autograd/arena.h"
#include "autograd/ops.h"
#include "autograd/products.h"

namespace headcount {

/// How cached numbers are stored.
enum class CacheType {
  real,  ///< as computed: float32 in the float library
  f16,   ///< IEEE half
  int8,  ///< x = scale q with q in -127 .. 127; one float32 scale per token and head
};

/// How MLA decodes. Both give the same numbers.
enum class MlaDecoding {
  automatic,  ///< absorbed for single tokens where it can be, else expanded
  expanded,   ///< k and v of all cached tokens are computed from their latents
  absorbed,   ///< kv_b_proj is folded into query and output: scores and sums in latent space
};

/// What a cache is made for.
struct CacheOptions {
  Index sequences = 1;
  Index capacity = 0;  ///< tokens
  CacheType type = CacheType::real;
  MlaDecoding mla = MlaDecoding::automatic;
};

/// Bytes that `elements` numbers in `vectors` scaled groups take.
Index cache_bytes(CacheType type, Index elements, Index vectors);

/// One tensor of a KV cache: for each sequence and head a ring of `capacity` rows of `width`
/// numbers, one per token; token t lies in slot t % capacity.
class CacheTensor {
 public:
  CacheTensor(Index sequences, Index heads, Index width, Index capacity, CacheType type);

  Index heads() const { return heads_; }
  Index width() const { return width_; }
  Index capacity() const { return capacity_; }
  bool converts() const { return type_ != CacheType::real; }  ///< whether `read` needs scratch

  /// Stores `row` [heads, width] of token `position`.
  void write(Index sequence, Index position, const Real* row);
  /// Rows of slots [slot, slot + count) as numbers: in place where they are stored as Real, else
  /// converted into `scratch` [count, width].
  ConstMatrix read(Index sequence, Index head, Index slot, Index count, Real* scratch) const;
  /// Makes every sequence here a copy of sequence 0 of `other`, which has the same sizes.
  void copy_first(const CacheTensor& other);

  Index bytes() const { return bytes_; }  ///< allocated

 private:
  Index row_index(Index sequence, Index head, Index slot) const {
    return (sequence * heads_ + head) * capacity_ + slot;
  }
  std::byte* row(Index index) const { return numbers_.get() + index * row_bytes_; }
  float* scale(Index index) const { return reinterpret_cast<float*>(scales_.get()) + index; }

  Index sequences_, heads_, width_, capacity_;
  CacheType type_;
  Index row_bytes_, bytes_;
  AlignedMemory numbers_, scales_;
};

/// What one layer keeps of the tokens so far.
struct KvCache {
  std::vector<CacheTensor> tensors;
  MlaDecoding mla = MlaDecoding::automatic;
  Index length = 0;  ///< tokens seen; the last `capacity` of them are held

  Index bytes() const;
  /// Stores x [sequences, T, heads, width] as the tokens from `length` on, which stays as it is.
  void write(std::size_t tensor, Var x);
  /// What a tensor holds of the first `total` tokens, in the order of the slots:
  /// [sequences, min(total, capacity), heads, width].
  Var read(std::size_t tensor, Tape& tape, Index sequences, Index total) const;
};

/// Attention of the newest T tokens over all that `cache` holds, themselves included; they are
/// written but not yet counted in `cache.length`. q [B, T, H, Dk]; keys are the rows of tensor
/// `keys`, values the first `value_width` columns of tensor `values` -> [B, T, H, value_width].
/// One token: the cache is read once, in the form it is stored in. More: read back as a whole; then
/// nothing may have been overwritten, length + T <= capacity.
Var attend_cached(Var q, const KvCache& cache, std::size_t keys, std::size_t values,
                  Index value_width, const AttentionOptions& options);

}  // namespace headcount
