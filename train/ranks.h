#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "autograd/base/real.h"

namespace headcount {

/// Half-open index range [first, last).
struct Part {
  Index first = 0, last = 0;
  Index size() const { return last - first; }
};

/// The part of `count` items that rank `rank` of `size` takes. Parts are in the order of ranks and
/// their sizes differ by one at most; rank 0 has one of the largest.
Part part_of(Index count, int rank, int size);

/// The processes (ranks 0 to size - 1) that mpirun or Slurm started together, on one machine or on
/// many, and that share their work. This base class stands for a process that was started alone;
/// MpiRanks (train/cli/mpi_ranks.cpp) for one among several. Calls are collective: all ranks make
/// them in the same order, each from its main thread; only `abort` is free. If one rank dies, the
/// others exit with an error.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }

  /// Copies the bytes of rank 0 to all ranks.
  virtual void broadcast(std::span<std::byte>) {}
  /// All-gather: each rank has filled its `part_of` the items, of `item_bytes` each; afterwards
  /// every rank has all items.
  virtual void gather(std::span<std::byte>, std::size_t /*item_bytes*/) {}

  /// One step of a pipeline through the ranks in their order: sends to both neighbours and receives
  /// what they send in the same step; an empty span means nothing. Returns when everything has
  /// arrived. Sizes at sender and receiver must agree.
  struct Pass {
    std::span<const Real> to_next, to_previous;
    std::span<Real> from_next, from_previous;
  };
  virtual void pass(const Pass&) {}

  /// Ends the shared work; returns true if all ranks reach their end within seconds. With
  /// `success`, a rank waits for all others. After true no call may follow, after false only
  /// `abort`.
  virtual bool end(bool /*success*/) { return true; }
  /// Ends all ranks at once, wherever they are, with an exit code.
  [[noreturn]] virtual void abort(int code);
};

/// The one rank of a process that was started alone.
Ranks& alone();

/// `broadcast` and `gather` for trivially copyable items.
template <class T>
void broadcast(Ranks& ranks, std::span<T> items) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.broadcast(std::as_writable_bytes(items));
}
template <class T>
void gather(Ranks& ranks, std::span<T> items) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.gather(std::as_writable_bytes(items), sizeof(T));
}

/// Barrier: returns when all ranks have called it.
void wait_for_all(Ranks& ranks);

/// The first rank whose `flag` is not 0, and its flag; none if all flags are 0.
std::optional<std::pair<int, int>> first_flag(Ranks& ranks, int flag);

/// The first text that is not empty, of all ranks in their order, cut at 400 bytes; empty if all
/// are.
std::string first_text(Ranks& ranks, const std::string& text);

/// Throws Error at all ranks if `text` differs between any rank and rank 0. For the message, `what`
/// says what the text is, and `remedy` what to do.
void require_same(
    Ranks& ranks, const std::string& text, const std::string& what,
    const std::string& remedy = "start the same program on the same files everywhere");

}  // namespace headcount
