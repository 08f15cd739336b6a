#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "autograd/products/product_kernels.h"

#if defined __AMX_BF16__ && defined __AVX512BF16__ && defined HEADCOUNT_ONEDNN
#include <immintrin.h>

#include <oneapi/dnnl/dnnl.hpp>
#define HEADCOUNT_TILES
#endif

namespace headcount::tiles {

#ifdef HEADCOUNT_TILES

namespace {

using vectors::load;
using vectors::Vector;

// A tile has 16 rows, of 16 sums or of 32 operands.
constexpr Index kRows = 16, kDepth = 32;

struct alignas(64) Row {  // of operands; loads that cross cache lines take twice as long
  std::array<Eigen::bfloat16, kDepth> numbers;
};

// Operand of the instruction that configures tiles: three of whole rows. Intel, "64 and IA-32
// Architectures Software Developer's Manual" (2023), volume 1, section 18.3.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> bytes_of_row = {64, 64, 64};
  std::array<std::uint8_t, 16> rows = {kRows, kRows, kRows};
};
constexpr Configuration kConfiguration;

// The first `count` of 16 numbers, at most, then zeros.
Vector load_first(const Real* x, Index count) {
  const auto mask = (1U << std::clamp<Index>(count, 0, kRows)) - 1;
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x);
}

__m512i round(Vector first, Vector second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

// The first `count` of 16 numbers of rows r and r + 1 of a matrix of so many rows, side by side in
// pairs.
__m512i pairs(const Real* x, Index stride, Index r, Index rows, Index count) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto row = [&](Index i) { return load_first(x + i * stride, i < rows ? count : 0); };
  return _mm512_permutexvar_epi16(order, round(row(r), row(r + 1)));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // a vector type as argument of a template

// Writes a as [rows / 16][depth / 32][16] rows.
void round_left(ConstMatrix a, Row* to) {
  for (Index row = 0; row < a.rows; row += kRows) {
    const Index rows = std::min(kRows, a.rows - row);
    for (Index k = 0; k < a.cols; k += kDepth, to += kRows) {
      if (!a.transposed) {
        const Real* from = a.data + row * a.stride + k;
        for (Index r = 0; r < rows; ++r, from += a.stride)
          _mm512_store_si512(to + r, round(load_first(from, a.cols - k),
                                           load_first(from + kRows, a.cols - k - kRows)));
        continue;
      }
      vectors::simd::PacketBlock<Vector, kRows> block;
      for (Index i = 0; i < kRows; ++i)
        block.packet[i] =
            reinterpret_cast<Vector>(pairs(a.data + row, a.stride, k + 2 * i, a.cols, rows));
      vectors::simd::ptranspose(block);
      for (Index r = 0; r < kRows; ++r) _mm512_store_ps(to + r, block.packet[r]);
    }
  }
}

#pragma GCC diagnostic pop

// Writes b as [columns / 16][depth / 2] rows of 16 pairs.
void round_right(ConstMatrix b, Index depth, Row* to) {
  for (Index col = 0; col < b.cols; col += kRows) {
    for (Index k = 0; k < depth; k += 2, ++to)
      _mm512_store_si512(to, pairs(b.data + col, b.stride, k, b.rows, kRows));
  }
}

// Writes rows of the sums, or adds them.
void store_rows(const Matrix& c, bool adds) {
  alignas(64) Real sums[kRows * kRows];
  _tile_stored(0, sums, sizeof(Vector));
  for (Index row = 0; row < c.rows; ++row) {
    Real* const to = c.data + row * c.stride;
    const Vector sum = load(sums + row * kRows);
    vectors::store(to, adds ? vectors::simd::padd(load(to), sum) : sum);
  }
}

}  // namespace

// oneDNN has asked the system for the registers, without which the instructions are illegal.
bool available() {
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  static const bool result =
      (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
  return result;
}

Scope::Scope(bool active) : active_(active) {
  if (active_) _tile_loadconfig(&kConfiguration);
}

Scope::~Scope() {
  if (active_) _tile_release();
}

void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  if (!available()) return vectors::multiply(c, a, b, write);
  const Index depth = (a.cols + kDepth - 1) / kDepth * kDepth;
  thread_local std::vector<Row> left_memory, right_memory;
  Row *const left = room(left_memory, (c.rows + kRows - 1) / kRows * kRows * depth / kDepth),
             *const right = room(right_memory, c.cols * depth / kDepth);
  round_left(a, left);
  round_right(b, depth, right);
  for (Index row = 0; row < c.rows; row += kRows) {
    for (Index col = 0; col < c.cols; col += kRows) {
      Real* const to = c.data + row * c.stride + col;
      const Index rows = std::min(kRows, c.rows - row);
      const bool adds = write == Write::add, whole = rows == kRows;
      if (adds && whole)
        _tile_loadd(0, to, c.stride * sizeof(Real));
      else
        _tile_zero(0);
      for (Index k = 0; k < depth; k += kDepth) {
        _tile_loadd(1, left + (row * depth + k * kRows) / kDepth, sizeof(Row));
        _tile_loadd(2, right + (col * depth + k * kRows) / kDepth, sizeof(Row));
        _tile_dpbf16ps(0, 1, 2);
      }
      if (whole)
        _tile_stored(0, to, c.stride * sizeof(Real));
      else
        store_rows(Matrix(to, rows, kRows, c.stride), adds);
    }
  }
}

#else

bool available() { return false; }
Scope::Scope(bool active) : active_(active) {}
Scope::~Scope() { static_cast<void>(active_); }
void multiply(const Matrix& c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  vectors::multiply(c, a, b, write);
}

#endif

}  // namespace headcount::tiles
