#include "autograd/products.h"

// This file sets Eigen's cache sizes (pin_cache_sizes below). Eigen has one such setting for the
// whole process, and that belongs to the program that this library is linked into. With another
// name for its namespace, this file compiles a copy of Eigen that has its own setting.
#define Eigen HeadcountEigen
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/parallel.h"
#include "autograd/products_bf16.h"
#include "autograd/products_plain.h"

#ifdef HEADCOUNT_DOUBLE
#undef HEADCOUNT_ONEDNN  // oneDNN multiplies in float only
#endif
#ifdef HEADCOUNT_ONEDNN
#include "autograd/onednn.h"
#endif

namespace headcount {

namespace {

using RowMajor = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;
using Map = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

// Least number of multiply-adds for oneDNN. Below it, oneDNN's overhead per call makes Eigen
// faster, 1.5 times at 32 x 32 x 16.
constexpr Index kOneDnnMacs = 1 << 15;

std::atomic<bool> counting{false};
std::atomic<std::int64_t> counted{0};

#ifdef HEADCOUNT_ONEDNN
GemmLibrary chosen = GemmLibrary::onednn;

void onednn_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  const OneThreadOfOpenMP one;
  const auto order = [](const ConstMatrix& m) { return m.transposed ? 'T' : 'N'; };
  check_onednn(dnnl_sgemm(order(a), order(b), c.rows, c.cols, a.cols, 1, a.data, a.stride, b.data,
                          b.stride, write == Write::add ? 1 : 0, c.data, c.stride),
               c.rows, c.cols, a.cols);
}
#else
GemmLibrary chosen = GemmLibrary::eigen;
#endif

#ifdef HEADCOUNT_PLAIN_PRODUCTS  // where Eigen has no vectors

void eigen_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  plain_gemm(c, a, b, write);
}

#else

ConstMap map(const ConstMatrix& m) {
  return m.transposed ? ConstMap(m.data, m.cols, m.rows, Eigen::OuterStride<>(m.stride))
                      : ConstMap(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride));
}

// Eigen cuts products into blocks by the size of the caches that it finds, and so groups sums by
// them. Pinned, the same binary gives the same bits on machines with other caches.
void pin_cache_sizes() {
  static const bool pinned =
      (Eigen::setCpuCacheSizes(32 * 1024, 512 * 1024, 4 * 1024 * 1024), true);
  static_cast<void>(pinned);
}

void eigen_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  pin_cache_sizes();
  Map out(c.data, c.rows, c.cols, Eigen::OuterStride<>(c.stride));
  if (write == Write::assign) out.setZero();
  const ConstMap left = map(a), right = map(b);
  if (a.transposed && b.transposed) {
    out.noalias() += left.transpose() * right.transpose();
  } else if (a.transposed) {
    out.noalias() += left.transpose() * right;
  } else if (b.transposed) {
    out.noalias() += left * right.transpose();
  } else {
    out.noalias() += left * right;
  }
}

#endif

void real_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
#ifdef HEADCOUNT_ONEDNN
  if (chosen == GemmLibrary::onednn && c.rows * c.cols * a.cols >= kOneDnnMacs)
    return onednn_gemm(c, a, b, write);
#endif
  eigen_gemm(c, a, b, write);
}

// Rounded numbers of m as Real, in `memory`.
ConstMatrix widened(const ConstMatrix& m, std::vector<Real>& memory) {
  const ConstMatrix stored = m.transposed ? m.transpose() : m;
  memory.resize(static_cast<std::size_t>(stored.rows * stored.cols));
  for (Index row = 0; row < stored.rows; ++row)
    widen(stored.rounded + row * stored.stride, stored.cols, memory.data() + row * stored.cols);
  const ConstMatrix result(memory.data(), stored.rows, stored.cols);
  return m.transposed ? result.transpose() : result;
}

void rounded_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
#ifdef HEADCOUNT_ONEDNN
  if (c.rows * c.cols * a.cols > 0 && bf16_lacks().empty()) return onednn_bf16_gemm(c, a, b, write);
#endif
  thread_local std::vector<Real> left, right;
  real_gemm(c, widened(a, left), widened(b, right), write);
}

// Eigen packs b again for each chunk, so few large chunks do less work, but many threads need many
// chunks. Measured: tests/bench/README.md.
constexpr Index kMaxChunks = 32;
constexpr Index kChunkMacs = 1 << 17;  // some microseconds
constexpr Index kChunkRows = 64, kTransposedChunkRows = 32;
constexpr Index kPartDepth = 2048, kMaxParts = 8;  // when k is split

Index ratio_up(Index value, Index by) { return (value + by - 1) / by; }

// Length of each part of k if k is split.
Index part_depth(Index k) { return std::max(kPartDepth, ratio_up(k, kMaxParts)); }

// Writes the sum of the parts, in order, to c.
void sum_parts(Matrix c, const Real* parts, Index count, Write write) {
  parallel_for(c.rows, row_chunk(count * c.cols), [&](Index row) {
    Eigen::Map<RowMajor> out(c.data + row * c.stride, 1, c.cols);
    if (write == Write::assign) out.setZero();
    for (Index part = 0; part < count; ++part)
      out += Eigen::Map<const RowMajor>(parts + (part * c.rows + row) * c.cols, 1, c.cols);
  });
}

Index chunk_rows(Index rows, Index cols, Index k, Index least) {
  if (OnOneThread::active()) return std::max<Index>(1, rows);
  const Index for_work = ratio_up(kChunkMacs, std::max<Index>(1, cols * k));
  return ratio_up(std::max({for_work, least, ratio_up(rows, kMaxChunks)}), 8) * 8;
}

}  // namespace

ConstMatrix ConstMatrix::transpose() const {
  ConstMatrix result = *this;
  std::swap(result.rows, result.cols);
  result.transposed = !transposed;
  return result;
}

ConstMatrix ConstMatrix::row_range(Index begin, Index end) const {
  ConstMatrix result = *this;
  const Index first = transposed ? begin : begin * stride;
  if (data != nullptr) result.data += first;
  if (rounded != nullptr) result.rounded += first;
  result.rows = end - begin;
  return result;
}

std::string name(GemmLibrary library) {
#ifdef HEADCOUNT_ONEDNN
  if (library == GemmLibrary::onednn) {
    const dnnl_version_t* const version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }
#endif
  return library == GemmLibrary::eigen ? "Eigen" : "oneDNN";
}

GemmLibrary gemm_library() { return chosen; }

void use_gemm_library(GemmLibrary library) {
#ifndef HEADCOUNT_ONEDNN
  if (library == GemmLibrary::onednn)
    throw Error("this program was built without oneDNN; configure it with -DHEADCOUNT_GEMM=onednn");
#endif
  chosen = library;
}

void prepare_gemm() {
  constexpr Index kSize = 32;  // cubed, it is kOneDnnMacs: not too small for oneDNN
  std::array<Real, kSize * kSize> a{}, b{}, c{};
  gemm(Matrix(c.data(), kSize, kSize), ConstMatrix(a.data(), kSize, kSize),
       ConstMatrix(b.data(), kSize, kSize));
}

void count_macs(std::int64_t macs) {
  if (counting.load(std::memory_order_relaxed)) counted += macs;
}

bool reads_rounded(Index rows, Index cols, Index k) { return rows * cols * k >= kOneDnnMacs; }

void gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write) {
  const Index k = a.cols;
  count_macs(c.rows * c.cols * k);
  const bool both_real = a.data != nullptr && b.data != nullptr;
  const bool both_rounded = a.rounded != nullptr && b.rounded != nullptr;
  if (both_rounded && (!both_real || reads_rounded(c.rows, c.cols, k)))
    return rounded_gemm(c, a, b, write);
  const bool rounded_rows = b.rounded != nullptr && b.transposed && write == Write::assign;
  if (rounded_rows && c.rows < kFewRows) return few_rows_gemm(c, a, b);
  real_gemm(c, a, b, write);
}

Index gemm_chunk(Index rows, Index cols, Index k) { return chunk_rows(rows, cols, k, kChunkRows); }

Index gemm_scratch(Index rows, Index cols, Index k) {
  if (OnOneThread::active()) return 0;
  const Index parts = ratio_up(k, part_depth(k));
  return parts > 1 ? parts * rows * cols : 0;
}

void parallel_gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write, Real* scratch) {
  const Index k = a.cols;
  if (scratch != nullptr && gemm_scratch(c.rows, c.cols, k) > 0) {
    const Index depth = part_depth(k);
    parallel_chunks(k, depth, [&](Index begin, Index end) {
      gemm(Matrix(scratch + begin / depth * c.rows * c.cols, c.rows, c.cols),
           a.column_range(begin, end), b.row_range(begin, end));
    });
    return sum_parts(c, scratch, ratio_up(k, depth), write);
  }
  const Index chunk =
      chunk_rows(c.rows, c.cols, k, a.transposed ? kTransposedChunkRows : kChunkRows);
  parallel_chunks(c.rows, chunk, [&](Index begin, Index end) {
    gemm(Matrix(c.data + begin * c.stride, end - begin, c.cols, c.stride), a.row_range(begin, end),
         b, write);
  });
}

MacCounter::MacCounter() {
  counted = 0;
  counting = true;
}

MacCounter::~MacCounter() { counting = false; }

std::int64_t MacCounter::count() const { return counted; }

}  // namespace headcount
