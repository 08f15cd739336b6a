#include "nn/attention/layer_cache.h"

#include <algorithm>
#include <utility>

#include "nn/attention/kind.h"

namespace headcount {

namespace {

// Rows that each sequence has of `kept`.
Index rows_of(const Kept& kept, const CacheOptions& options) {
  if (kept.per_sequence) return 1;
  if (kept.block > 0) return options.capacity / kept.block;
  return options.window > 0 ? std::min(options.window, options.capacity) : options.capacity;
}

}  // namespace

Count cached_bytes(std::span<const Kept> keeps, const CacheOptions& options, CacheType unrounded) {
  Count all;
  for (const Kept& kept : keeps) {
    const CacheFormat format = options.rounding.of(kept);
    const Index rows = rows_of(kept, options), recent = std::min(rows, format.recent);
    all += Count(options.sequences) * kept.heads *
           (Count(rows - recent) * row_bytes(format, kept.width) +
            Count(recent) * row_bytes(unrounded, kept.width));
  }
  return all;
}

LayerCache::LayerCache(std::vector<Kept> keeps, const CacheOptions& options)
    : keeps_(std::move(keeps)), form_(options.form) {
  for (const Kept& kept : keeps_) {
    rows_.emplace_back(options.sequences, kept.heads, kept.width, rows_of(kept, options),
                       options.rounding.of(kept));
  }
}

Index LayerCache::bytes() const {
  Index total = 0;
  for (const RowCache& rows : rows_) total += rows.bytes();
  return total;
}

void LayerCache::require_takes(Index tokens) const {
  require_setting(tokens == 1 || std::ranges::all_of(rows_, &RowCache::takes_many),
                  "tokens come one by one where recent ones are cached unrounded");
}

RowCache& LayerCache::find(std::string_view name, Per per) {
  const auto kept = std::ranges::find(keeps_, name, &Kept::name);
  require_setting(kept != keeps_.end() && kept->per_sequence == (per == Per::sequence),
                  "the layer does not declare that it keeps '{}' per {}", name,
                  per == Per::sequence ? "sequence" : "token");
  return rows_[static_cast<std::size_t>(kept - keeps_.begin())];
}

void LayerCache::copy_first(const LayerCache& other) {
  length_ = other.length_;
  for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].copy_first(other.rows_[i]);
}

}  // namespace headcount
