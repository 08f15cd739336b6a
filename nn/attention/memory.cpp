#include "nn/attention/memory.h"

#include <algorithm>

#include "autograd/base/error.h"

namespace headcount {

LayerCache::LayerCache(std::vector<Kept> keeps, const CacheOptions& options)
    : keeps_(std::move(keeps)), capacity_(options.capacity), form_(options.form) {
  for (const Kept& kept : keeps_) {
    rows_.emplace_back(options.sequences, kept.heads, kept.width,
                       kept.per_sequence ? 1 : options.capacity,
                       kept.per_sequence ? CacheType::real : options.type);
  }
}

Index LayerCache::bytes() const {
  Index total = 0;
  for (const RowCache& rows : rows_) total += rows.bytes();
  return total;
}

std::size_t LayerCache::place(std::string_view name, bool per_sequence) const {
  const auto kept = std::ranges::find(keeps_, name, &Kept::name);
  if (kept == keeps_.end() || kept->per_sequence != per_sequence) {
    throw ShapeError("the layer does not declare that it keeps '" + std::string(name) +
                     "' of each " + (per_sequence ? "sequence" : "token"));
  }
  return static_cast<std::size_t>(kept - keeps_.begin());
}

const RowCache& LayerCache::rows(std::string_view name) const { return rows_[place(name, false)]; }

std::span<Real> LayerCache::state(std::string_view name) {
  return rows_[place(name, true)].numbers();
}

RowCache& LayerCache::rows(std::string_view name) {
  return const_cast<RowCache&>(std::as_const(*this).rows(name));
}

void LayerCache::copy_first(const LayerCache& other) {
  length_ = other.length_;
  for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].copy_first(other.rows_[i]);
}

Memory Memory::sharing(const Memory& earlier, AttentionStats* stats) {
  Memory memory = earlier;
  memory.shares_ = true;
  memory.stats_ = stats;
  return memory;
}

Rows Memory::shared(std::string_view name) const {
  for (const auto& [kept, rows] : kept_) {
    if (kept == name) return rows;
  }
  throw ShapeError("the earlier layer kept no '" + std::string(name) + "' to share");
}

Rows Memory::keep(std::string_view name, Var x) {
  if (shares_)
    throw ShapeError("a layer that shares keeps nothing, but it has '" + std::string(name) + "'");
  kept_.emplace_back(name, store(name, x));
  return kept_.back().second;
}

Rows Memory::store(std::string_view name, Var x) {
  if (cache_ == nullptr) return Rows(x);
  RowCache& rows = cache_->rows(name);
  const Shape shape = x.shape();
  const Index length = cache_->length();
  if (shape.rank() != 4 || shape[0] != rows.sequences() || shape[2] != rows.heads() ||
      shape[3] != rows.width()) {
    throw ShapeError("the rows '" + std::string(name) + "' are " + shape.text() +
                     ", the layer declares [" + std::to_string(rows.sequences()) + ", T, " +
                     std::to_string(rows.heads()) + ", " + std::to_string(rows.width()) + "]");
  }
  if (x.tape->needs_gradient(x))
    throw ShapeError("a cache keeps no gradients; decode on a tape without them");
  const Real* row = x.value().data();
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index t = 0; t < shape[1]; ++t, row += shape[2] * shape[3]) rows.write(b, length + t, row);
  }
  return {rows, length + shape[1]};
}

std::span<Real> Memory::state(std::string_view name) {
  if (cache_ == nullptr) return {};
  const std::span<Real> numbers = cache_->state(name);
  if (cache_->length() == 0) std::ranges::fill(numbers, Real{0});
  return numbers;
}

}  // namespace headcount
