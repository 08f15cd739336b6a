#include "autograd/cache/row_cache.h"

#include <cstring>
#include <vector>

#include "autograd/base/count.h"

namespace headcount {

namespace {

// Format of the rows of recent tokens.
CacheFormat unrounded(const CacheFormat& format) {
  CacheFormat real;
  real.rotated = format.rotated;
  return real;
}

}  // namespace

RowCache::RowCache(Index sequences, Index heads, Index width, Index capacity,
                   const CacheFormat& format, Index first_token)
    : sequences_(sequences),
      heads_(heads),
      width_(width),
      capacity_(capacity),
      first_token_(first_token),
      format_(format),
      packed_(std::max<Index>(0, capacity - format.recent)),
      row_bytes_(Count(row_bytes(format, width)).index()) {
  const Count bytes = Count(sequences_) * heads_ * packed_ * row_bytes_;
  numbers_ = allocate_aligned(static_cast<std::uint64_t>(bytes.value()));
  if (format.recent > 0)
    recent_ = std::make_unique<RowCache>(sequences, heads, width, capacity - packed_,
                                         unrounded(format), first_token);
}

Index RowCache::bytes() const {
  return sequences_ * heads_ * packed_ * row_bytes_ + (recent_ ? recent_->bytes() : 0);
}

void RowCache::write(Index sequence, Index token, const Real* numbers) {
  if (recent_) {
    const Index left = token - recent_->capacity();  // leaves the recent tokens
    for (Index head = 0; head < heads_ && packed_ > 0 && left >= first_token_; ++head) {
      const Index slot = recent_->slot(left);
      pack(sequence, head, left,
           recent_->read_stored(sequence, head, slot, 1, 0, width_, nullptr).data);
    }
    recent_->write(sequence, token, numbers);
    newest_ = token;
    return;
  }
  std::vector<Real> rotated;
  for (Index head = 0; head < heads_; ++head, numbers += width_) {
    if (!format_.rotated) {
      pack(sequence, head, token, numbers);
      continue;
    }
    rotated.assign(numbers, numbers + width_);
    rotate_row(rotated.data(), width_, block());
    pack(sequence, head, token, rotated.data());
  }
}

void RowCache::pack(Index sequence, Index head, Index token, const Real* numbers) {
  std::byte* to = row(sequence, head, (token - first_token_) % packed_);
  const CacheTypeRow& type = row_of(format_.type);
  const Index group = format_.group > 0 ? format_.group : width_;
  const auto bytes = static_cast<Index>(row_bytes(format_, group));
  for (Index first = 0; first < width_; first += group, to += bytes)
    type.pack(numbers + first, group, format_.levels, to);
}

void RowCache::unpack(const std::byte* row, Index first, Index width, Real* to) const {
  const CacheTypeRow& type = row_of(format_.type);
  if (format_.group == 0) return type.read(row, first, width, format_.levels, to);
  const auto bytes = static_cast<Index>(row_bytes(format_, format_.group));
  for (Index end = first + width; first < end;) {
    const Index group = first / format_.group, column = first - group * format_.group;
    const Index count = std::min(format_.group - column, end - first);
    type.read(row + group * bytes, column, count, format_.levels, to);
    first += count, to += count;
  }
}

ConstMatrix RowCache::read_stored(Index sequence, Index head, Index slot, Index count, Index first,
                                  Index width, Real* scratch) const {
  if (recent_) {
    const Index newest = this->slot(newest_);
    for (Index i = 0; i < count; ++i) {
      const Index token = newest_ - (newest - slot - i + capacity_) % capacity_;
      Real* const to = scratch + i * width;
      if (token > newest_ - recent_->capacity()) {
        const ConstMatrix from =
            recent_->read_stored(sequence, head, recent_->slot(token), 1, first, width, nullptr);
        std::copy_n(from.data, width, to);
      } else {
        unpack(row(sequence, head, (token - first_token_) % packed_), first, width, to);
      }
    }
    return {scratch, count, width};
  }
  const std::byte* const rows = row(sequence, head, slot);
  if (format_.type == CacheType::real)
    return {reinterpret_cast<const Real*>(rows) + first, count, width, width_};
  if (width == width_ && row_of(format_.type).scale_bytes == 0) {  // numbers without gaps
    unpack(rows, 0, count * width, scratch);
  } else {
    for (Index i = 0; i < count; ++i)
      unpack(rows + i * row_bytes_, first, width, scratch + i * width);
  }
  return {scratch, count, width};
}

ConstMatrix RowCache::read(Index sequence, Index head, Index slot, Index count, Index first,
                           Index width, Real* scratch) const {
  if (!format_.rotated) return read_stored(sequence, head, slot, count, first, width, scratch);
  const Index begin = first / block() * block();
  const Index all = (first + width + block() - 1) / block() * block() - begin;
  std::vector<Real> turned(static_cast<std::size_t>(all));
  for (Index i = 0; i < count; ++i) {
    const ConstMatrix from = read_stored(sequence, head, slot + i, 1, begin, all, turned.data());
    if (from.data != turned.data()) std::copy_n(from.data, all, turned.data());
    rotate_row(turned.data(), all, block());
    std::copy_n(turned.data() + first - begin, width, scratch + i * width);
  }
  return {scratch, count, width};
}

std::span<Real> RowCache::numbers() {
  return {reinterpret_cast<Real*>(numbers_.get()),
          static_cast<std::size_t>(sequences_ * heads_ * capacity_ * width_)};
}

void RowCache::copy_first(const RowCache& other) {
  const auto bytes = static_cast<std::size_t>(heads_ * packed_ * row_bytes_);
  for (Index sequence = 0; sequence < sequences_; ++sequence)
    std::memcpy(row(sequence, 0, 0), other.numbers_.get(), bytes);
  if (recent_) recent_->copy_first(*other.recent_);
  newest_ = other.newest_;
}

void RowCache::copy_tokens(const RowCache& other, Index first, Index end) {
  for (Index sequence = 0; sequence < sequences_; ++sequence) {
    for (Index head = 0; head < heads_; ++head) {
      for (Index token = first; token < end; ++token)
        std::memcpy(row(sequence, head, slot(token)), other.row(sequence, head, other.slot(token)),
                    static_cast<std::size_t>(row_bytes_));
    }
  }
}

}  // namespace headcount
