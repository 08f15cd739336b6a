#pragma once

#include <algorithm>

#include "autograd/real.h"

namespace headcount {

/// Elements below which an elementwise loop is not worth a second thread.
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
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < chunks; ++i) body(i * chunk, std::min(count, (i + 1) * chunk));
}

/// Rows per chunk for a loop over rows of `width` elements.
inline Index row_chunk(Index width) {
  return std::max<Index>(1, kElementChunk / std::max<Index>(1, width));
}

/// Tasks per chunk for a loop over tasks of `macs` multiply-accumulates each, so that a chunk is
/// worth a thread.
inline Index task_chunk(Index macs) {
  constexpr Index kChunkMacs = 1 << 17;  // about ten microseconds
  return std::max<Index>(1, kChunkMacs / std::max<Index>(1, macs));
}

/// Number of threads that parallel loops use from now on; 0 chooses the number of processors.
void set_threads(int threads);
int threads();

}  // namespace headcount
