#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>

#include "autograd/base/real.h"

/// Threads of parallel loops: OpenMP's, or a single one where the compiler has no OpenMP.
namespace headcount {

/// Sets the number of threads of parallel loops that the calling thread starts; 0: one for each
/// processor.
void set_threads(int threads);
int threads();
int this_thread();  ///< index of the running thread in its parallel loop, from 0

/// Scope guard: while it lives, parallel loops that this thread starts run in order, on this thread
/// alone.
class OnOneThread {
 public:
  OnOneThread() : before_(active_) { active_ = true; }
  ~OnOneThread() { active_ = before_; }
  OnOneThread(const OnOneThread&) = delete;
  OnOneThread& operator=(const OnOneThread&) = delete;
  static bool active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool before_;
};

/// Number of elements below which an elementwise loop is not worth a second thread.
inline constexpr Index kElementChunk = 4096;

/// Runs `body(begin, end)` over [0, count) in chunks of `chunk`, in parallel. The borders depend on
/// `count` and `chunk` alone, never on the number of threads: whatever a chunk computes, it
/// computes the same for any thread count. `body` must not throw.
template <class Body>
void parallel_chunks(Index count, Index chunk, const Body& body) {
  if (count <= chunk) {
    if (count > 0) body(Index{0}, count);
    return;
  }
  const Index chunks = (count + chunk - 1) / chunk;
  if (OnOneThread::active()) {
    for (Index i = 0; i < chunks; ++i) body(i * chunk, std::min(count, (i + 1) * chunk));
    return;
  }
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (Index i = 0; i < chunks; ++i) body(i * chunk, std::min(count, (i + 1) * chunk));
}

/// Runs `body(i)` for each i of [0, count), in the chunks of `parallel_chunks`.
template <class Body>
void parallel_for(Index count, Index chunk, const Body& body) {
  parallel_chunks(count, chunk, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}

/// Runs `body(task, thread)` for each task of [0, count), at most `max_threads` tasks at a time;
/// `thread` counts from 0. Each task runs on one thread (see OnOneThread), unless it is the only
/// one: then its own loops are parallel. `all` is the number of tasks over all ranks, by default
/// `count`; with it a task computes the same bits wherever it runs. If tasks throw, one of the
/// exceptions is thrown again once all tasks have ended. Without OpenMP, no later task starts.
template <class Body>
void parallel_tasks(Index count, int max_threads, const Body& body, std::optional<Index> all = {}) {
  if (count == 1 && all.value_or(1) == 1) return body(Index{0}, 0);
#ifdef _OPENMP
  std::exception_ptr thrown;
#pragma omp parallel for schedule(static, 1) num_threads(max_threads)
  for (Index task = 0; task < count; ++task) {
    const OnOneThread here;
    try {
      body(task, this_thread());
    } catch (...) {
#pragma omp critical
      thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
#else
  static_cast<void>(max_threads);
  for (Index task = 0; task < count; ++task) {
    const OnOneThread here;
    body(task, 0);
  }
#endif
}

/// Rows per chunk for a loop over rows of `width` elements.
inline Index row_chunk(Index width) {
  return std::max<Index>(1, kElementChunk / std::max<Index>(1, width));
}

/// Tasks per chunk for a loop over tasks of `macs` multiply-accumulates each, so that a chunk is
/// worth a thread.
inline Index task_chunk(std::int64_t macs) {
  constexpr std::int64_t kChunkMacs = 1 << 17;  // about ten microseconds
  return std::max<Index>(1, static_cast<Index>(kChunkMacs / std::max<std::int64_t>(1, macs)));
}

}  // namespace headcount
