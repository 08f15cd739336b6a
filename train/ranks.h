#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "autograd/real.h"

namespace headcount {

/// Things [first, last) of some in a row.
struct Part {
  Index first = 0, last = 0;
  Index size() const { return last - first; }
};

/// Which of `count` things rank `rank` of `size` takes. The parts are in the order of ranks and
/// differ by one at most; rank 0 has one of the largest.
Part part_of(Index count, int rank, int size);

/// The processes that were started together, by mpirun or Slurm, and share their work: ranks 0 to
/// size - 1, on one machine or on many. This class is a process that was started alone; MpiRanks
/// (train/cli/mpi_ranks.cpp) is one among others. All that is done here is done by every rank, in
/// the same order and by one thread at a time, but for questions. A rank that loses another ends.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }

  /// `bytes` become what they are at rank 0.
  virtual void broadcast(std::span<std::byte>) {}
  /// Each rank has filled its `part_of` some items of `item_bytes` each; then each gets all.
  virtual void gather(std::span<std::byte>, std::size_t /*item_bytes*/) {}

  /// One step of a pipeline through the ranks in their order: what goes to the neighbours and what
  /// they send at the same step; nothing where empty. Returns when it is there. Sizes must agree.
  struct Pass {
    std::span<const Real> to_next, to_previous;
    std::span<Real> from_next, from_previous;
  };
  virtual void pass(const Pass&) {}

  /// A question to rank 0, asked by another rank, and its answer; any thread may ask. While ranks
  /// ask, rank 0 answers and does nothing else of this.
  virtual std::string ask(const std::string&) { return {}; }
  /// At rank 0: `reply` to a question if there is one. Whether there was.
  virtual bool answer(const std::function<std::string(const std::string&)>& /*reply*/) {
    return false;
  }

  /// Whether all ranks come to their end within seconds. With success to report a rank waits for
  /// all: then no call may follow, and after false none but `abort`.
  virtual bool end(bool /*success*/) { return true; }
  /// Ends all ranks at once, wherever they are, with an exit code.
  [[noreturn]] virtual void abort(int code);
};

/// This process as if it were started alone.
Ranks& alone();

/// `broadcast` and `gather` of numbers and the like.
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

/// Returns when all ranks have come here.
void wait_for_all(Ranks& ranks);

/// The first of the ranks at which `flag` is not 0, and the flag there; nothing where it is 0 at
/// all.
std::optional<std::pair<int, int>> first_flag(Ranks& ranks, int flag);

/// Throws Error at all ranks where `text` is another one at some rank than at rank 0; `what` says
/// what it is, and `remedy` what to do, for the message.
void require_same(
    Ranks& ranks, const std::string& text, const std::string& what,
    const std::string& remedy = "start the same program on the same files everywhere");

}  // namespace headcount
