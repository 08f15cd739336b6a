#include "autograd/products.h"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>

#include "autograd/parallel.h"

namespace headcount {

namespace {

using RowMajor = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;
using Map = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

ConstMap map(const ConstMatrix& m) {
  return m.transposed ? ConstMap(m.data, m.cols, m.rows, Eigen::OuterStride<>(m.stride))
                      : ConstMap(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride));
}

// Eigen cuts products into blocks by the size of the caches that it finds, and so groups sums by
// them. Pinned, the same binary gives the same bits on machines with other caches.
const bool pinned_cache_sizes = [] {
  Eigen::setCpuCacheSizes(32 * 1024, 512 * 1024, 4 * 1024 * 1024);
  return true;
}();

std::atomic<bool> counting{false};
std::atomic<std::int64_t> counted{0};

template <class A, class B>
void assign_product(Map& c, const A& a, const B& b, bool accumulate) {
  if (accumulate) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

constexpr Index kSmallestChunkMacs = 1 << 18;  // about ten microseconds
constexpr Index kRowChunks = 16;               // enough for as many threads

Index round_up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

ConstMatrix ConstMatrix::transpose() const {
  ConstMatrix result = *this;
  std::swap(result.rows, result.cols);
  result.transposed = !transposed;
  return result;
}

void multiply(Matrix c, ConstMatrix a, ConstMatrix b, bool accumulate) {
  if (counting.load(std::memory_order_relaxed)) counted += c.rows * c.cols * a.cols;
  Map out(c.data, c.rows, c.cols, Eigen::OuterStride<>(c.stride));
  const ConstMap left = map(a), right = map(b);
  if (a.transposed && b.transposed) {
    assign_product(out, left.transpose(), right.transpose(), accumulate);
  } else if (a.transposed) {
    assign_product(out, left.transpose(), right, accumulate);
  } else if (b.transposed) {
    assign_product(out, left, right.transpose(), accumulate);
  } else {
    assign_product(out, left, right, accumulate);
  }
}

Index product_chunk(Index rows, Index cols, Index k) {
  const Index for_work = kSmallestChunkMacs / std::max<Index>(1, cols * k) + 1;
  return round_up(std::max((rows + kRowChunks - 1) / kRowChunks, for_work), 8);
}

void parallel_multiply(Matrix c, ConstMatrix a, ConstMatrix b, bool accumulate) {
  const Index chunk = product_chunk(c.rows, c.cols, a.cols);
  parallel_chunks(c.rows, chunk, [&](Index begin, Index end) {
    ConstMatrix rows = a;
    rows.rows = end - begin;
    rows.data += a.transposed ? begin : begin * a.stride;
    multiply(Matrix(c.data + begin * c.stride, end - begin, c.cols, c.stride), rows, b, accumulate);
  });
}

MacCounter::MacCounter() {
  counted = 0;
  counting = true;
}

MacCounter::~MacCounter() { counting = false; }

std::int64_t MacCounter::count() const { return counted; }

}  // namespace headcount
