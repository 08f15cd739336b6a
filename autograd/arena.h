#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// Alignment of every tensor, bytes: one cache line, one AVX-512 register. Eigen's sums group
/// numbers from the first aligned one on, so equal bits need equal alignment.
inline constexpr std::size_t kAlignment = 64;

struct AlignedDelete {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedDelete>;

/// Uninitialised memory aligned to kAlignment. Throws std::bad_alloc, also for more bytes than an
/// address can reach.
AlignedMemory allocate_aligned(std::uint64_t bytes);

/// Bump allocator for data that lives as long as one training step: values, saved statistics, vjp
/// closures. `reset` forgets everything and keeps the memory: from the second step of equal sizes
/// on, the heap is not used and no page is mapped, which would cost more than the use of the page.
class Arena {
 public:
  /// Returns uninitialised memory, aligned to kAlignment and valid until `reset`.
  void* take(std::uint64_t bytes);
  Real* take_reals(Index count) {
    return static_cast<Real*>(take(static_cast<std::uint64_t>(count) * sizeof(Real)));
  }
  template <class T>
  const T* store(const T& object) {
    static_assert(std::is_trivially_destructible_v<T>, "the arena runs no destructors");
    return new (take(sizeof(T))) T(object);
  }
  void reset();

  std::size_t capacity() const;                                    ///< bytes held
  std::size_t heap_allocations() const { return blocks_.size(); }  ///< since construction

 private:
  struct Block {
    AlignedMemory memory;
    std::size_t size = 0;
    std::size_t used = 0;
  };
  void add_block(std::uint64_t bytes);

  std::vector<Block> blocks_;
  std::size_t current_ = 0;  // the block that is being filled; later blocks are empty
};

/// Pool of buffers that are taken and given back in any order, for the gradients of a backward
/// pass: a gradient dies as soon as the vjp of its node has run.
class BufferPool {
 public:
  /// Returns the smallest free buffer of at least `count` numbers, uninitialised and aligned to
  /// kAlignment; allocates one if none is free. Throws std::bad_alloc.
  Real* take(Index count);
  /// Frees a buffer that `take` returned, for later calls; the pool keeps its memory.
  void give_back(Real* buffer);

  std::size_t capacity() const { return capacity_; }                ///< bytes held
  std::size_t heap_allocations() const { return buffers_.size(); }  ///< since construction

 private:
  struct Buffer {
    AlignedMemory memory;
    Index size = 0;
    bool in_use = false;
  };
  std::vector<Buffer> buffers_;
  std::size_t capacity_ = 0;
};

}  // namespace headcount
