#pragma once

#include <algorithm>

#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

/// Writes to `sink` the sums over all rows, in order, of term(row, i) for each column i; nothing if
/// the sink is empty. The sums of a few columns at a time are held in registers.
template <class Term>
void put_column_sums(const GradientSink& sink, Index rows, Index width, const Term& term) {
  if (!sink) return;
  parallel_chunks(width, kElementChunk, [=](Index begin, Index end) {
    for_lanes<4 * kLanes>(end - begin, [=]<int n>(Index first) {
      Real sums[n] = {};
      const Index column = begin + first;
      for (Index row = 0; row < rows; ++row) {
        for (int i = 0; i < n; ++i) sums[i] += term(row, column + i);
      }
      for (int i = 0; i < n; ++i) sink.put(column + i, sums[i]);
    });
  });
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
  void put_sum(Index which, const GradientSink& sink) const {
    const Real* const first = sums_ + which * width_;
    const Index size = vectors_ * width_;
    put_column_sums(sink, chunks_, width_,
                    [=](Index chunk, Index i) { return first[chunk * size + i]; });
  }

 private:
  BufferPool& pool_;
  Index rows_, width_, vectors_, chunk_, chunks_;
  Real* sums_;
};

/// Writes to `sink` the sum over all rows of term(row, i) for each column i; nothing if the sink is
/// empty. Memory is read fastest along rows, so threads take chunks of them, or of their columns
/// where rows are so wide that copies of the sum would cost more.
template <class Term>
void put_row_sum(BufferPool& pool, const GradientSink& sink, Index rows, Index width,
                 const Term& term) {
  constexpr Index kWide = 64;
  if (!sink || rows * kWide <= width) return put_column_sums(sink, rows, width, term);
  const RowSums sums(pool, rows, width, 1);
  sums.for_rows([&](Index row, Real* sum) {
    for (Index i = 0; i < width; ++i) sum[i] += term(row, i);
  });
  sums.put_sum(0, sink);
}

}  // namespace headcount
