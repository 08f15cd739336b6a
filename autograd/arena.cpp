#include "autograd/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "autograd/base/system.h"

namespace headcount {

namespace {

constexpr std::uint64_t kSmallestBlock = 1 << 16;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t multiple = kAlignment) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

void AlignedDelete::operator()(std::byte* memory) const { std::free(memory); }

AlignedMemory allocate_aligned(std::uint64_t bytes) {
  const std::size_t alignment = bytes < kHugePage ? kAlignment : kHugePage;
  if (bytes > PTRDIFF_MAX) throw std::bad_alloc();
  // For 0 bytes some systems give a null pointer, as if there were no memory.
  const auto size =
      static_cast<std::size_t>(round_up(std::max<std::uint64_t>(bytes, 1), alignment));
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ask_for_huge_pages(memory.get(), bytes);
  return memory;
}

void* Arena::take(std::uint64_t bytes) {
  bytes = round_up(bytes);
  const auto lacks_room = [&](const Block& block) { return block.size - block.used < bytes; };
  while (current_ < blocks_.size() && lacks_room(blocks_[current_])) ++current_;
  if (current_ == blocks_.size()) add_block(bytes);
  Block& block = blocks_[current_];
  std::byte* start = block.memory.get() + block.used;
  block.used += static_cast<std::size_t>(bytes);
  return start;
}

void Arena::add_block(std::uint64_t bytes) {
  // A new block has at least half of the bytes held already, so that a first step needs few blocks
  // and wastes little.
  const std::uint64_t size = std::max({bytes, round_up(capacity() / 2), kSmallestBlock});
  blocks_.push_back({allocate_aligned(size), static_cast<std::size_t>(size), 0});
}

void Arena::reset() {
  for (Block& block : blocks_) block.used = 0;
  current_ = 0;
}

std::size_t Arena::capacity() const {
  std::size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.size;
  return bytes;
}

Real* BufferPool::take(Index count) {
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers_) {
    const bool fits = !buffer.in_use && buffer.size >= count;
    if (fits && (best == nullptr || buffer.size < best->size)) best = &buffer;
  }
  if (best == nullptr) {
    const std::uint64_t bytes =
        round_up(static_cast<std::uint64_t>(std::max<Index>(count, 1)) * sizeof(Real));
    buffers_.push_back({allocate_aligned(bytes), static_cast<Index>(bytes / sizeof(Real)), false});
    capacity_ += static_cast<std::size_t>(bytes);
    best = &buffers_.back();
  }
  best->in_use = true;
  return reinterpret_cast<Real*>(best->memory.get());
}

void BufferPool::give_back(Real* buffer) {
  for (Buffer& candidate : buffers_) {
    if (reinterpret_cast<Real*>(candidate.memory.get()) == buffer) candidate.in_use = false;
  }
}

}  // namespace headcount
