#pragma once

#include <algorithm>

#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

/// Sums of rows: vector id(row) of `sums` [vectors, width] gets term(row * width + i, i) at each i,
/// for all rows in order; nothing if the sink is empty. Threads take slices of the columns, so that
/// any number of them gives the same bits. Slices are as wide as the first-level cache allows:
/// memory is read far faster along rows.
template <class Id, class Term>
void put_row_sums(const GradientSink& sums, Index vectors, Index rows, Index width, const Id& id,
                  const Term& term) {
  if (!sums) return;
  const Index threads_here = OnOneThread::active() ? 1 : threads();
  const Index share = std::max(row_chunk(rows), (width + threads_here - 1) / threads_here);
  const Index slice = (std::min(share, kElementChunk) + kLanes - 1) / kLanes * kLanes;
  parallel_chunks(width, slice, [&](Index begin, Index end) {
    for (Index v = 0; v < vectors && sums.write == Write::assign; ++v)
      std::fill(sums.data + v * width + begin, sums.data + v * width + end, Real{0});
    for (Index row = 0; row < rows; ++row) {
      Real* const to = sums.data + id(row) * width;
      for (Index i = begin; i < end; ++i) to[i] += term(row * width + i, i);
    }
  });
}
/// The sum of all rows: `put_row_sums` of one vector.
template <class Term>
void put_row_sum(const GradientSink& sum, Index rows, Index width, const Term& term) {
  put_row_sums(
      sum, 1, rows, width, [](Index) { return Index{0}; }, term);
}

/// Vectors that are sums over the rows of a tensor. Each chunk of rows has vectors of its own,
/// which are added up in order: any number of threads gives the same bits.
class RowSums {
 public:
  RowSums(BufferPool& pool, Index rows, Index width, Index vectors)
      : pool_(pool), rows_(rows), width_(width), vectors_(vectors) {
    constexpr Index kMaxChunks = 16;
    chunk_ = std::max(row_chunk(width), (rows + kMaxChunks - 1) / kMaxChunks);
    chunks_ = std::max<Index>(1, (rows + chunk_ - 1) / chunk_);
    sums_ = pool.take(chunks_ * vectors * width);
    std::fill_n(sums_, chunks_ * vectors * width, Real{0});
  }
  ~RowSums() { pool_.give_back(sums_); }
  RowSums(const RowSums&) = delete;
  RowSums& operator=(const RowSums&) = delete;

  /// Calls body(row, vectors) for all rows in parallel, with the vectors of the row's chunk.
  template <class Body>
  void for_rows(const Body& body) const {
    parallel_chunks(rows_, chunk_, [&](Index begin, Index end) {
      Real* const vectors = sums_ + begin / chunk_ * vectors_ * width_;
      for (Index row = begin; row < end; ++row) body(row, vectors);
    });
  }
  /// Writes the sum of vector `which` to `sink`, unless the sink is empty.
  void put_sum(Index which, GradientSink sink) const {
    if (!sink) return;
    for (Index chunk = 0; chunk < chunks_; ++chunk) {
      const Real* const part = sums_ + (chunk * vectors_ + which) * width_;
      put(sink, 0, array(part, width_));
      sink.write = Write::add;
    }
  }

 private:
  BufferPool& pool_;
  Index rows_, width_, vectors_, chunk_, chunks_;
  Real* sums_;
};

}  // namespace headcount
