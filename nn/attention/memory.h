#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/ops.h"

namespace headcount {

struct DryPass;
struct Kept;
class AttentionPlan;
class LayerCache;

/// Whether a narrower cache may round these rows or must store them as Real.
enum class Rounding { by_type, none };

/// Interface through which a layer keeps rows of its tokens and reads those of earlier tokens. A
/// layer computes the same function with every kind of memory:
///
///     - for whole texts, in training and evaluation: there are no earlier tokens, and rows are
///       values on the tape, with gradients;
///     - for decoding: rows join those of earlier tokens in a cache. Cached rows come back in the
///       type they are stored in, without gradients, and without a copy unless several tokens end
///       beyond a window;
///     - for a dry pass: rows have shapes alone, and each call adds to the list of cache parts.
class Memory {
 public:
  /// Memory for whole texts. `key_mask` [B, T] is 1 where a token may be attended to; empty: 1
  /// everywhere. Attention adds to `stats` if given.
  explicit Memory(std::span<const std::uint8_t> key_mask = {}, AttentionStats* stats = nullptr)
      : key_mask_(key_mask), stats_(stats) {}
  /// Appends `tokens` tokens per sequence to `cache`: `keep` writes their rows. Its length stays.
  /// Throws ShapeError as `require_takes`.
  Memory(LayerCache& cache, Index tokens, AttentionStats* stats = nullptr);
  /// Memory that lists the cache parts in `pass`, which must outlive it.
  explicit Memory(DryPass& pass);
  /// Memory for a layer of `plan` that shares what the layer of `earlier` cached or picked. What it
  /// caches besides, such as the states of its convolutions, is in `own`.
  static Memory sharing(const Memory& earlier, const Memory& own, const AttentionPlan& plan);

  /// Keeps these tokens' rows x [B, T, heads, width] and returns them with those of earlier tokens,
  /// for as long as this memory and those that share it live. Throws ShapeError if the layer
  /// declares other rows of that name, if T is not the number of appended tokens, or if x needs a
  /// gradient.
  Rows keep(std::string_view name, Var x, Rounding rounding = Rounding::by_type);
  /// Keeps the rows that `make` returns. A layer that shares has no projections to make rows with:
  /// it gets the rows of the earlier layer, and `make` is not called.
  template <std::invocable Make>
  Rows keep(std::string_view name, const Make& make, Rounding rounding = Rounding::by_type) {
    return shares_rows_ ? shared(name) : keep(name, make(), rounding);
  }

  /// Keeps pooled rows: `make` returns those [B, blocks, 1, width] of the blocks of `tokens` tokens
  /// that these tokens complete, if any. Returns them with those of earlier blocks; none before the
  /// first block is complete. Otherwise as `keep`.
  template <std::invocable Make>
  std::optional<Rows> keep_blocks(std::string_view name, Index tokens, Index width,
                                  const Make& make) {
    if (shares_pooled_) return find_shared(name);
    return keep_blocks(name, tokens, width, std::optional<Var>(make()));
  }

  /// Keeps what an indexer picked, `count` numbers, for later layers; none: all rows are read.
  void keep_picked(const std::optional<PickedRows>& picked, Index count);
  const std::optional<PickedRows>& picked() const { return picked_; }

  /// State of each sequence [B, heads, width] after the earlier tokens, zero before the first one.
  /// An op that computes these tokens overwrites it. Empty for whole texts.
  std::span<Real> state(std::string_view name, Index heads, Index width);
  /// Inputs x [B, T, C] behind the last `count` inputs of earlier tokens, [B, count + T, C]. Where
  /// there are none, they are `first` or 0; for whole texts without `first`, x is returned itself.
  /// With `block`, they are inputs of a block of so many tokens that is not complete yet.
  Var after_earlier(std::string_view name, Var x, Index count, Index block = 0,
                    std::optional<Real> first = {});

  /// Values of these tokens [B, T, heads, width] in the model's first layer; none in that layer
  /// before it sets them.
  const std::optional<Var>& first_values() const { return first_values_; }
  void set_first_values(const std::optional<Var>& values) { first_values_ = values; }

  /// Destination of auxiliary losses, such as an indexer's: scalars. Without this call layers
  /// compute none.
  void collect_losses_in(std::vector<Var>& losses) { losses_ = &losses; }
  std::vector<Var>* losses() const { return losses_; }

  Index first_position() const { return first_position_; }
  /// Returns true if rows come from a cache.
  bool is_cached() const;
  std::span<const std::uint8_t> key_mask() const { return key_mask_; }
  AttentionStats* stats() const { return stats_; }
  std::string_view form() const;  ///< see CacheOptions

 private:
  Rows shared(std::string_view name) const;
  std::optional<Rows> find_shared(std::string_view name) const;
  std::optional<Rows> keep_blocks(std::string_view name, Index tokens, Index width,
                                  std::optional<Var> x);
  std::optional<Rows> keep(const Kept& kept, std::optional<Var> x);
  Rows store(const std::string& name, std::optional<Var> x, Index begin, Index end);
  std::span<Real> state(Kept kept);
  void write(std::string_view name, Var x, RowCache& rows, Index first, Index count) const;

  LayerCache* cache_ = nullptr;
  DryPass* dry_ = nullptr;
  Index first_position_ = 0, tokens_ = 0;
  std::span<const std::uint8_t> key_mask_;
  AttentionStats* stats_ = nullptr;
  std::vector<std::pair<std::string, Rows>> kept_;
  std::vector<std::shared_ptr<RowCache>> chunks_;  // rows that the cache has no slots for
  std::optional<Var> first_values_;
  std::vector<Var>* losses_ = nullptr;
  std::optional<PickedRows> picked_;
  std::shared_ptr<const std::vector<std::int32_t>> picked_rows_;  // of a cache's layer, on no tape
  bool shares_rows_ = false, shares_pooled_ = false;
};

}  // namespace headcount
