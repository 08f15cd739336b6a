#include "autograd/products/products.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "autograd/parallel.h"
#include "autograd/products/bf16.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/product_kernels.h"

namespace headcount {

namespace {

using Map = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

// Least number of multiply-adds for oneDNN and for rounded operands. Below it, oneDNN's overhead
// per call makes Eigen faster, 1.5 times at 32 x 32 x 16.
constexpr Index kLargeMacs = 1 << 15;
std::atomic<bool> counting{false};
std::atomic<std::int64_t> counted{0};

#ifdef HEADCOUNT_PLAIN_PRODUCTS  // where Eigen has no vectors

void eigen_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  plain_gemm(c, a, b, write);
}

#else

void eigen_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  Map out(c.data, c.rows, c.cols, Eigen::OuterStride<>(c.stride));
  if (write == Write::assign) out.setZero();
  const ConstMap left = stored_map(a), right = stored_map(b);
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

bool is_large(const Matrix& c, Index k) { return c.rows * c.cols * k >= kLargeMacs; }

}  // namespace

void library_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
#ifdef HEADCOUNT_ONEDNN
  if (is_large(c, a.cols)) return onednn_gemm(c, a, b, write);
#endif
  eigen_gemm(c, a, b, write);
}

namespace {

Index ratio_up(Index value, Index by) { return (value + by - 1) / by; }

// Columns per chunk of a product of few rows: enough chunks for threads to have equal shares,
// enough work for each of them.
Index column_chunk(Index rows, Index cols, Index k) {
  constexpr Index kChunkMacs = 1 << 14, kChunks = 32;
  const Index chunk = std::max(cols / kChunks, kChunkMacs / std::max<Index>(1, rows * k));
  return std::max<Index>(1, ratio_up(chunk, 8)) * 8;
}

// Rows per chunk of a product. Eigen packs b again for each chunk, so few large chunks do less
// work, but many threads need many chunks. Measured: tests/bench/README.md.
Index rows_per_chunk(Index rows, Index cols, Index k, bool a_transposed) {
  constexpr Index kMaxChunks = 32;
  constexpr Index kChunkMacs = 1 << 17;  // some microseconds
  const Index least = a_transposed ? 32 : 64;
  const Index for_work = ratio_up(kChunkMacs, std::max<Index>(1, cols * k));
  return ratio_up(std::max({for_work, least, ratio_up(rows, kMaxChunks)}), 8) * 8;
}

// Length of each part of k if k is split.
Index part_depth(Index k) {
  constexpr Index kPartDepth = 2048, kMaxParts = 8;
  return std::max(kPartDepth, ratio_up(k, kMaxParts));
}

void split_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write,
                Precision precision) {
  const Index depth = part_depth(a.cols), parts = ratio_up(a.cols, depth), size = c.rows * c.cols;
  thread_local std::vector<Real> memory;
  Real* const sums = room(memory, parts * size);
  parallel_chunks(a.cols, depth, [&](Index begin, Index end) {
    gemm(Matrix(sums + begin / depth * size, c.rows, c.cols), a.column_range(begin, end),
         b.row_range(begin, end), Write::assign, precision);
  });
  parallel_for(c.rows, row_chunk(parts * c.cols), [&](Index row) {
    Eigen::Map<RowMajor> out(c.data + row * c.stride, 1, c.cols);
    if (write == Write::assign) out.setZero();
    for (Index part = 0; part < parts; ++part)
      out += Eigen::Map<const RowMajor>(sums + part * size + row * c.cols, 1, c.cols);
  });
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
  const Index offset = transposed ? begin : begin * stride;
  result.data += offset;
  if (rounded != nullptr) result.rounded += offset;
  result.rows = end - begin;
  return result;
}

std::string gemm_library() {
#ifdef HEADCOUNT_ONEDNN
  return "oneDNN " + onednn_version();
#else
  return "Eigen";
#endif
}

void prepare_gemm() {
  constexpr Index kSize = 32;  // cubed, it is kLargeMacs: not too small for oneDNN
  std::array<Real, kSize * kSize> a{}, b{}, c{};
  gemm(Matrix(c.data(), kSize, kSize), ConstMatrix(a.data(), kSize, kSize),
       ConstMatrix(b.data(), kSize, kSize));
}

void count_macs(std::int64_t macs) {
  if (counting.load(std::memory_order_relaxed)) counted += macs;
}

void gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write, Precision precision) {
  count_macs(std::int64_t{c.rows} * c.cols * a.cols);
  if (precision == Precision::bf16 && c.rows >= kFewRows && is_large(c, a.cols))
    return bf16_gemm(c, a, b, write);
  library_gemm(c, a, b, write);
}

void parallel_gemm(Matrix c, ConstMatrix a, ConstMatrix b, Write write, Precision precision) {
  const Index k = a.cols;
  if (OnOneThread::active()) return gemm(c, a, b, write, precision);
  if (c.rows < kFewRows) {
    return parallel_chunks(c.cols, column_chunk(c.rows, c.cols, k), [&](Index begin, Index end) {
      gemm(Matrix(c.data + begin, c.rows, end - begin, c.stride), a, b.column_range(begin, end),
           write, precision);
    });
  }
  if (k > part_depth(k)) return split_gemm(c, a, b, write, precision);
  // Products of few rows round differently. In decoding, where a row must not depend on the number
  // of rows beside it, a last chunk of less than a quarter is joined to the one before it.
  const Index chunk = rows_per_chunk(c.rows, c.cols, k, a.transposed);
  const Index chunks = std::max<Index>(1, (c.rows + chunk - (chunk + 3) / 4) / chunk);
  parallel_for(chunks, 1, [&](Index i) {
    const Index begin = i * chunk, end = i + 1 == chunks ? c.rows : begin + chunk;
    gemm(Matrix(c.data + begin * c.stride, end - begin, c.cols, c.stride), a.row_range(begin, end),
         b, write, precision);
  });
}

MacCounter::MacCounter() {
  counted = 0;
  counting = true;
}

MacCounter::~MacCounter() { counting = false; }

std::int64_t MacCounter::count() const { return counted; }

}  // namespace headcount
