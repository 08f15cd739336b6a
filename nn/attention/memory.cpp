#include "nn/attention/memory.h"

#include <algorithm>

#include "autograd/base/error.h"
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

Count cached_bytes(std::span<const Kept> keeps, const CacheOptions& options) {
  Count all;
  for (const Kept& kept : keeps) {
    const CacheFormat format = options.rounding.of(kept);
    const Index rows = rows_of(kept, options), recent = std::min(rows, format.recent);
    all += Count(options.sequences * kept.heads) *
           (Count(rows - recent) * row_bytes(format, kept.width) +
            Count(recent) * row_bytes({}, kept.width));
  }
  return all;
}

LayerCache::LayerCache(std::vector<Kept> keeps, const CacheOptions& options)
    : keeps_(std::move(keeps)),
      capacity_(options.window > 0 ? std::min(options.window, options.capacity) : options.capacity),
      form_(options.form) {
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

RowCache& LayerCache::find(std::string_view name, Per per) {
  const auto kept = std::ranges::find(keeps_, name, &Kept::name);
  require_setting(kept != keeps_.end() && kept->per_sequence == (per == Per::sequence),
                  "the layer does not declare that it keeps '", name, "' per ",
                  per == Per::sequence ? "sequence" : "token");
  return rows_[static_cast<std::size_t>(kept - keeps_.begin())];
}

void LayerCache::copy_first(const LayerCache& other) {
  length_ = other.length_;
  for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].copy_first(other.rows_[i]);
}

namespace {
constexpr Index kTile = 64;  // attention's tiles of keys begin at multiples of it
}

Memory Memory::sharing(const Memory& earlier, const Memory& own) {
  Memory memory = earlier;
  memory.shares_ = true;
  memory.cache_ = own.cache_;
  memory.dry_ = own.dry_;
  memory.stats_ = own.stats_;
  memory.losses_ = own.losses_;
  return memory;
}

std::optional<Rows> Memory::find_shared(std::string_view name) const {
  const auto found = std::ranges::find(kept_, name, &std::pair<std::string, Rows>::first);
  if (found == kept_.end()) return std::nullopt;
  if (dry_ != nullptr) dry_->reads_other = true;
  return found->second;
}

Rows Memory::shared(std::string_view name) const {
  const std::optional<Rows> rows = find_shared(name);
  require_setting(rows.has_value(), "the earlier layer kept no '", name, "' to share");
  return *rows;
}

Rows Memory::keep(std::string_view name, Var x, Rounding rounding) {
  require_setting(!shares_ || dry_ != nullptr, "a layer that shares keeps nothing, but it has '",
                  name, "'");
  kept_.emplace_back(name, store(name, x, rounding));
  return kept_.back().second;
}

std::optional<Rows> Memory::keep_blocks(std::string_view name, Index tokens, Index width,
                                        std::optional<Var> x) {
  const Index before = first_position_ / tokens, after = (first_position_ + tokens_) / tokens;
  std::optional<Rows> rows;
  if (dry_ != nullptr) {
    dry_->keeps.push_back({.name = std::string(name), .heads = 1, .width = width, .block = tokens});
    if (dry_->decodes && after > 0) x = dry_->tape.record(Op::read_rows, {1, after, 1, width}, {});
  }
  if (x && cache_ == nullptr) rows = Rows(*x);
  if (cache_ != nullptr && after > 0) {
    RowCache& all = cache_->rows(name);
    if (x) write(name, *x, all, before, after - before);
    rows = Rows(all, after);
  }
  if (rows) kept_.emplace_back(name, *rows);
  return rows;
}

// Several tokens that end beyond the cache read a copy of its rows and their own: in the cache, the
// last ones overwrite rows that the first ones see. Tiles of keys begin in the copy where they do
// in a whole text, so that weighted sums do not change; rows before the window are of other tokens.
Rows Memory::store(std::string_view name, Var x, Rounding rounding) {
  if (dry_ != nullptr) return note(name, x, rounding);
  if (cache_ == nullptr) return Rows(x);
  RowCache& rows = cache_->rows(name);
  const Index begin = first_position_, end = begin + tokens_;
  require_setting(tokens_ == 1 || rows.takes_many(),
                  "tokens come one by one where recent ones are cached unrounded");
  if (tokens_ == 1 || !rows.overwritten(end)) {
    write(name, x, rows, begin, tokens_);
    return {rows, end};
  }
  const Index earliest = std::max<Index>(0, begin + 1 - rows.capacity()) / kTile * kTile;
  RowCache& all = *chunks_.emplace_back(std::make_shared<RowCache>(rows.for_tokens(earliest, end)));
  all.copy_tokens(rows, earliest, begin);
  write(name, x, all, begin, tokens_);
  rows.copy_tokens(all, std::max(begin, end - rows.capacity()), end);
  return {all, end};
}

Rows Memory::note(std::string_view name, Var x, Rounding rounding) {
  const Index heads = x.shape()[2], width = x.shape()[3], tokens = first_position_ + tokens_;
  dry_->keeps.push_back({.name = std::string(name),
                         .heads = heads,
                         .width = width,
                         .exact = rounding == Rounding::none});
  if (!dry_->decodes) return x;
  const Index held = dry_->window > 0 ? std::min(dry_->window, tokens) : tokens;
  return dry_->tape.record(Op::read_rows, {1, held, heads, width}, {});
}

// Writes rows [first, first + count) to `rows`, which the layer declares as `name`.
void Memory::write(std::string_view name, Var x, RowCache& rows, Index first, Index count) const {
  const Shape declared = {rows.sequences(), count, rows.heads(), rows.width()};
  if (x.shape() != declared) {
    throw ShapeError("the rows '", name, "' are ", x.shape().text(), ", the layer declares ",
                     declared.text());
  }
  require_setting(!x.tape->needs_gradient(x),
                  "a cache keeps no gradients; decode on a tape without them");
  const Real* row = x.value().data();
  for (Index b = 0; b < declared[0]; ++b) {
    for (Index t = 0; t < count; ++t, row += rows.heads() * rows.width())
      rows.write(b, first + t, row);
  }
}

std::span<Real> Memory::state(std::string_view name, Index heads, Index width, Index block) {
  if (dry_ != nullptr) {
    dry_->keeps.push_back({.name = std::string(name),
                           .heads = heads,
                           .width = width,
                           .per_sequence = true,
                           .block = block});
  }
  if (cache_ == nullptr) return {};
  const std::span<Real> numbers = cache_->state(name);
  if (first_position_ == 0) std::ranges::fill(numbers, Real{0});
  return numbers;
}

}  // namespace headcount
