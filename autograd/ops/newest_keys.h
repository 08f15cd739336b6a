#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "autograd/ops.h"

/// Keys of the decoding kernel of `attention`. Not part of the public interface.
namespace headcount {

inline constexpr Index kKeyChunk = 512;  ///< keys per task
inline constexpr Index kAligned = static_cast<Index>(kAlignment / sizeof(Real));

/// Number of keys read at a time: few enough that their rows stay in the first-level cache while
/// each query head of a group goes over them.
inline Index keys_per_piece(Index width) {
  constexpr Index kNumbers = 8192;
  return std::clamp(kNumbers / width / kAligned * kAligned, kAligned, kKeyChunk);
}

/// Cached rows that the newest token reads: those of single tokens, or pooled ones.
struct KeyGroup {
  std::span<const Rows> keys = {};
  const Rows* values = nullptr;
  PickedRows picked = {};  ///< the rows that are read, if the query picked some
  Index count = 0;         ///< number of rows read
  Index most = 0;          ///< number of rows read once the cache is full
  Index first_slot = 0;    ///< slot of the first row read, unless rows are picked
  Index first_key = 0;     ///< place of their scores in a row of all scores

  KeyGroup() = default;  // no rows
  KeyGroup(std::span<const Rows> key_parts, const Rows& value_rows,
           const std::optional<Selection>& selection, Index window, bool in_order)
      : keys(key_parts), values(&value_rows), most(values->cache()->capacity()) {
    const Index held = values->cache()->held(values->tokens());
    // The keys are all rows held, in the order of slots, or the rows of a narrower window, which
    // may wrap from the last slot to the first.
    count = window > 0 ? std::min(held, window) : held;
    const bool any_order = count == held && !in_order;
    first_slot = any_order ? 0 : values->cache()->slot(values->tokens() - count);
    if (!selection) return;
    picked = selection->rows;
    count = std::min(count, picked.most);
    most = std::min(most, picked.most);
  }

  bool picks() const { return picked.rows != nullptr; }
  Index chunks() const { return (count + kKeyChunk - 1) / kKeyChunk; }
  Index most_chunks() const { return (most + kKeyChunk - 1) / kKeyChunk; }

  /// Calls body(place of the first score, slot, n) for pieces of at most `piece` of the keys
  /// [begin, end), which `read` reads. The slot of picked rows is their place in the list.
  template <class Body>
  void for_pieces(Index begin, Index end, Index piece, const Body& body) const {
    const Index capacity = values->cache()->capacity();
    for (Index key = begin, n = 0; key < end; key += n) {
      const Index slot = picks() ? key : (first_slot + key) % capacity;
      n = std::min(piece, end - key);
      if (!picks()) n = std::min(n, capacity - slot);
      body(first_key + key, slot, n);
    }
  }

  /// Rows of a part of the keys, or of the values, as RowCache::read returns them.
  ConstMatrix read(const Rows& rows, Index sequence, Index head, Index slot, Index n,
                   Real* scratch) const {
    const RowCache& cache = *rows.cache();
    const Index width = rows.width();
    if (!picks()) return cache.read(sequence, head, slot, n, rows.first(), width, scratch);
    const std::int32_t* const list = picked.of(sequence, 0, 1) + slot;
    for (Index r = 0; r < n; ++r) {
      Real* const to = scratch + r * width;
      const Real* const from = cache.read(sequence, head, list[r], 1, rows.first(), width, to).data;
      if (from != to) std::copy_n(from, width, to);
    }
    return {scratch, n, width};
  }
};

}  // namespace headcount
