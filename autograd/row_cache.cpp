#include "autograd/row_cache.h"

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/bfloat16.h"

#if defined(__F16C__) && !defined(HEADCOUNT_DOUBLE)
#include <immintrin.h>
#endif

namespace headcount {

namespace {

template <class Number>
using Numbers = Eigen::Map<Eigen::Array<Number, Eigen::Dynamic, 1>>;
template <class Number>
using ConstNumbers = Eigen::Map<const Eigen::Array<Number, Eigen::Dynamic, 1>>;

Index number_bytes(CacheType type) {
  switch (type) {
    case CacheType::real:
      return sizeof(Real);
    case CacheType::f16:
      return sizeof(Eigen::half);
    case CacheType::bf16:
      return sizeof(Eigen::bfloat16);
    case CacheType::int8:
      return sizeof(std::int8_t);
  }
  return 0;
}

// Stores `row` at `to`, rounded to nearest even.
template <class Number>
void write_rounded(const ConstNumbers<Real>& row, std::byte* to, const char* type,
                   const char* others) {
  const Real greatest = row.abs().template maxCoeff<Eigen::PropagateNaN>();
  if (std::isfinite(greatest) && !std::isfinite(static_cast<Real>(static_cast<Number>(greatest)))) {
    throw NonFiniteError(
        formatted("the %s KV cache overflows: a key, value or latent is %.3g, the "
                  "greatest number of that type %.6g; choose `cache-dtype` %s",
                  type, static_cast<double>(greatest),
                  static_cast<double>(Eigen::NumTraits<Number>::highest()), others));
  }
  Numbers<Number>(reinterpret_cast<Number*>(to), row.size()) = row.template cast<Number>();
}

// Converts `count` float16 numbers at `from` to Real at `to`.
void read_halves(const std::byte* from, Index count, Real* to) {
  const auto* const halves = reinterpret_cast<const Eigen::half*>(from);
  Index i = 0;
#if defined(__F16C__) && !defined(HEADCOUNT_DOUBLE)
  // Uses the processor's own instruction: Eigen 3.4 takes seven times as long.
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(
        to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<Real>(halves[i]);
}

// Converts `count` bfloat16 numbers at `from` to Real at `to`.
void read_upper_halves(const std::byte* from, Index count, Real* to) {
  widen(reinterpret_cast<const Bfloat16*>(from), count, to);
}

}  // namespace

Index cache_bytes(CacheType type, Index elements, Index rows) {
  return elements * number_bytes(type) +
         (type == CacheType::int8 ? rows * static_cast<Index>(sizeof(float)) : 0);
}

RowCache::RowCache(Index sequences, Index heads, Index width, Index capacity, CacheType type,
                   Index first_token)
    : sequences_(sequences),
      heads_(heads),
      width_(width),
      capacity_(capacity),
      first_token_(first_token),
      type_(type),
      row_bytes_(width * number_bytes(type)),
      bytes_(
          cache_bytes(type, sequences * heads * capacity * width, sequences * heads * capacity)) {
  const Index rows = sequences * heads * capacity;
  numbers_ = allocate_aligned(static_cast<std::size_t>(rows * row_bytes_));
  if (type == CacheType::int8)
    scales_ = allocate_aligned(static_cast<std::size_t>(rows) * sizeof(float));
}

void RowCache::write(Index sequence, Index token, const Real* numbers) {
  for (Index head = 0; head < heads_; ++head) {
    const Index index = row_index(sequence, head, slot(token));
    const ConstNumbers<Real> from(numbers + head * width_, width_);
    switch (type_) {
      case CacheType::real:
        Numbers<Real>(reinterpret_cast<Real*>(row(index)), width_) = from;
        break;
      case CacheType::f16:
        write_rounded<Eigen::half>(from, row(index), "f16", "bf16, int8 or f32");
        break;
      case CacheType::bf16:
        write_rounded<Eigen::bfloat16>(from, row(index), "bf16", "int8 or f32");
        break;
      case CacheType::int8: {
        Numbers<std::int8_t> to(reinterpret_cast<std::int8_t*>(row(index)), width_);
        const Real greatest = from.abs().template maxCoeff<Eigen::PropagateNaN>();
        if (!std::isfinite(greatest)) {  // the whole row reads as NaN
          *scale(index) = std::numeric_limits<float>::quiet_NaN();
          to.setZero();
          break;
        }
        // Zeros, and numbers whose step would be denormal, are rounded to 0.
        constexpr Real kLeast = 127 * std::numeric_limits<Real>::min();
        const Real step = greatest >= kLeast ? greatest / 127 : Real{1};
        *scale(index) = static_cast<float>(step);
        to = (from / step).round().template cast<std::int8_t>();
        break;
      }
    }
  }
}

ConstMatrix RowCache::read(Index sequence, Index head, Index slot, Index count, Index first,
                           Index width, Real* scratch) const {
  const Index start = row_index(sequence, head, slot);
  if (type_ == CacheType::real)
    return {reinterpret_cast<const Real*>(row(start)) + first, count, width, width_};
  const auto read_rounded = type_ == CacheType::bf16 ? read_upper_halves : read_halves;
  if (type_ != CacheType::int8 && width == width_) {  // rows without gaps
    read_rounded(row(start), count * width, scratch);
    return {scratch, count, width};
  }
  const Index offset = first * number_bytes(type_);
  for (Index i = 0; i < count; ++i) {
    Real* const to = scratch + i * width;
    if (type_ != CacheType::int8) {
      read_rounded(row(start + i) + offset, width, to);
    } else {
      const auto* const quantized = reinterpret_cast<const std::int8_t*>(row(start + i) + offset);
      const auto step = static_cast<Real>(*scale(start + i));
      for (Index j = 0; j < width; ++j) to[j] = step * static_cast<Real>(quantized[j]);
    }
  }
  return {scratch, count, width};
}

std::span<Real> RowCache::numbers() {
  return {reinterpret_cast<Real*>(numbers_.get()),
          static_cast<std::size_t>(sequences_ * heads_ * capacity_ * width_)};
}

void RowCache::copy_first(const RowCache& other) {
  const Index rows = heads_ * capacity_;
  for (Index sequence = 0; sequence < sequences_; ++sequence)
    copy_rows(other, 0, sequence * rows, rows);
}

void RowCache::copy_tokens(const RowCache& other, Index first, Index end) {
  for (Index head = 0; head < sequences_ * heads_; ++head) {
    for (Index token = first; token < end; ++token)
      copy_rows(other, other.row_index(0, head, other.slot(token)), row_index(0, head, slot(token)),
                1);
  }
}

void RowCache::copy_rows(const RowCache& other, Index from, Index to, Index count) {
  std::memcpy(row(to), other.row(from), static_cast<std::size_t>(count * row_bytes_));
  if (type_ == CacheType::int8)
    std::memcpy(scale(to), other.scale(from), static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace headcount
