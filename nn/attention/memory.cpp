#include "nn/attention/memory.h"

#include <algorithm>

#include "nn/attention/kind.h"
#include "nn/attention/layer_cache.h"

namespace headcount {

namespace {

constexpr Index kTile = 64;  // attention's tiles of keys begin at multiples of it

void require_no_gradient(Var x) {
  require_setting(!x.tape->needs_gradient(x),
                  "a cache keeps no gradients; decode on a tape without them");
}

}  // namespace

Memory::Memory(LayerCache& cache, Index tokens, AttentionStats* stats)
    : cache_(&cache), first_position_(cache.length()), tokens_(tokens), stats_(stats) {
  cache.require_takes(tokens);
}

Memory::Memory(DryPass& pass)
    : dry_(&pass), first_position_(pass.first_position), tokens_(pass.tokens) {}

bool Memory::is_cached() const { return dry_ != nullptr ? dry_->decodes : cache_ != nullptr; }

std::string_view Memory::form() const {
  if (dry_ != nullptr) return dry_->form;
  return cache_ == nullptr ? std::string_view() : cache_->form();
}

Memory Memory::sharing(const Memory& earlier, const Memory& own, const AttentionPlan& plan) {
  Memory memory = earlier;
  memory.shares_rows_ = plan.shared().rows, memory.shares_pooled_ = plan.shared().pooled;
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
  require_setting(rows.has_value(), "the earlier layer kept no '{}' to share", name);
  return *rows;
}

Rows Memory::keep(std::string_view name, Var x, Rounding rounding) {
  require_setting(!shares_rows_ || dry_ != nullptr,
                  "a layer that shares keeps nothing, but it has '{}'", name);
  return *keep({.name = std::string(name),
                .heads = x.shape()[2],
                .width = x.shape()[3],
                .exact = rounding == Rounding::none},
               x);
}

std::optional<Rows> Memory::keep_blocks(std::string_view name, Index tokens, Index width,
                                        std::optional<Var> x) {
  return keep({.name = std::string(name), .heads = 1, .width = width, .block = tokens}, x);
}

std::optional<Rows> Memory::keep(const Kept& kept, std::optional<Var> x) {
  const Index block = std::max<Index>(1, kept.block), end = (first_position_ + tokens_) / block;
  if (dry_ != nullptr) dry_->keeps.push_back(kept);
  if (dry_ != nullptr && dry_->decodes) {
    const bool slides = kept.block == 0 && dry_->window > 0;
    const Shape cached = {1, slides ? std::min(dry_->window, end) : end, kept.heads, kept.width};
    x.reset();
    if (end > 0) x = dry_->tape.dry_leaf(cached, Op::read_rows);
  }
  std::optional<Rows> rows;
  if (x && cache_ == nullptr) rows = *x;
  if (cache_ != nullptr && end > 0) rows = store(kept.name, x, first_position_ / block, end);
  std::erase_if(kept_, [&](const auto& earlier) { return earlier.first == kept.name; });
  if (rows) kept_.emplace_back(kept.name, *rows);
  return rows;
}

void Memory::keep_picked(const std::optional<PickedRows>& picked, Index count) {
  picked_ = picked;
  if (!picked || cache_ == nullptr) return;
  picked_rows_ = std::make_shared<std::vector<std::int32_t>>(picked->rows, picked->rows + count);
  picked_->rows = picked_rows_->data();
}

// Several tokens that end beyond the cache read a copy of its rows and their own: in the cache, the
// last ones overwrite rows that the first ones see. Tiles of keys begin in the copy where they do
// in a whole text, so that weighted sums do not change; rows before the window are of other tokens.
Rows Memory::store(const std::string& name, std::optional<Var> x, Index begin, Index end) {
  RowCache& rows = cache_->rows(name);
  if (tokens_ == 1 || !rows.overwritten(end)) {
    if (x) write(name, *x, rows, begin, end - begin);
    return {rows, end};
  }
  const Index earliest = std::max<Index>(0, begin + 1 - rows.capacity()) / kTile * kTile;
  RowCache& all = *chunks_.emplace_back(std::make_shared<RowCache>(rows.for_tokens(earliest, end)));
  all.copy_tokens(rows, earliest, begin);
  write(name, *x, all, begin, tokens_);
  rows.copy_tokens(all, std::max(begin, end - rows.capacity()), end);
  return {all, end};
}

// Writes rows [first, first + count) to `rows`, which the layer declares as `name`.
void Memory::write(std::string_view name, Var x, RowCache& rows, Index first, Index count) const {
  const Shape declared = {rows.sequences(), count, rows.heads(), rows.width()};
  if (x.shape() != declared) {
    throw ShapeError("the rows '{}' are {}, the layer declares {}", name, x.shape().text(),
                     declared.text());
  }
  require_no_gradient(x);
  const Real* row = x.value().data();
  for (Index b = 0; b < declared[0]; ++b) {
    for (Index t = 0; t < count; ++t, row += rows.heads() * rows.width())
      rows.write(b, first + t, row);
  }
}

std::span<Real> Memory::state(std::string_view name, Index heads, Index width) {
  return state({.name = std::string(name), .heads = heads, .width = width, .per_sequence = true});
}

std::span<Real> Memory::state(Kept kept) {
  if (dry_ != nullptr) dry_->keeps.push_back(std::move(kept));
  if (cache_ == nullptr) return {};
  const std::span<Real> numbers = cache_->state(kept.name);
  if (first_position_ == 0) std::ranges::fill(numbers, Real{0});
  return numbers;
}

Var Memory::after_earlier(std::string_view name, Var x, Index count, Index block,
                          std::optional<Real> first) {
  const Index batch = x.shape()[0], tokens = x.shape()[1], channels = x.shape()[2];
  const Index before = count * channels, size = tokens * channels;
  std::span<Real> earlier = state({.name = std::string(name),
                                   .heads = count,
                                   .width = channels,
                                   .per_sequence = true,
                                   .block = block});
  if (!is_cached() && !first) return x;
  const Shape shape = {batch, count + tokens, channels};
  if (dry_ != nullptr) return dry_->tape.dry_leaf(shape);
  if (cache_ == nullptr)
    earlier = {x.tape->scratch(batch * before), static_cast<std::size_t>(batch * before)};
  if (first_position_ == 0) std::ranges::fill(earlier, first.value_or(0));
  const Var all = concat(x.tape->constant({batch, before}, earlier), reshape(x, {batch, size}));
  if (cache_ != nullptr) {
    require_no_gradient(x);
    for (Index b = 0; b < batch; ++b)
      std::copy_n(all.value().data() + b * (before + size) + size, before,
                  earlier.data() + b * before);
  }
  return reshape(all, shape);
}

}  // namespace headcount
