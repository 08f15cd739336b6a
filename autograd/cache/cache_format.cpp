#include "autograd/cache/cache_format.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

#if (defined(__F16C__) || defined(__AVX2__)) && !defined(HEADCOUNT_DOUBLE)
#include <immintrin.h>
#endif

namespace headcount {

namespace {

using Numbers = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;

constexpr Real kNaN = std::numeric_limits<Real>::quiet_NaN();

// The greatest size of `count` numbers; NaN if one is.
Real greatest_of(const Real* from, Index count) {
  return Numbers(from, count).abs().maxCoeff<Eigen::PropagateNaN>();
}

void refuse_overflow(std::string_view type, Real greatest, double limit, const char* others) {
  throw NonFiniteError(
      "{}",
      formatted("the %s KV cache overflows: a key, value or latent is %.3g, the greatest number of "
                "that type %.6g; choose `cache-dtype` %s",
                std::string(type).c_str(), static_cast<double>(greatest), limit, others));
}

void pack_real(const Real* from, Index count, CacheLevels, std::byte* to) {
  std::copy_n(from, count, reinterpret_cast<Real*>(to));
}

void read_real(const std::byte* from, Index first, Index count, CacheLevels, Real* to) {
  std::copy_n(reinterpret_cast<const Real*>(from) + first, count, to);
}

// Rounds to nearest even.
template <class Number, CacheType kType>
void pack_float(const Real* from, Index count, CacheLevels, std::byte* to) {
  const Real greatest = greatest_of(from, count);
  if (std::isfinite(greatest) && !std::isfinite(static_cast<Real>(static_cast<Number>(greatest))))
    refuse_overflow(row_of(kType).name, greatest,
                    static_cast<double>(Eigen::NumTraits<Number>::highest()),
                    kType == CacheType::f16 ? "bf16 or f32" : "int8 or f32");
  for (Index i = 0; i < count; ++i) {
    const auto number = static_cast<Number>(from[i]);
    std::memcpy(to + i * static_cast<Index>(sizeof number), &number, sizeof number);
  }
}

void read_f16(const std::byte* from, Index first, Index count, CacheLevels, Real* to) {
  const auto* const halves = reinterpret_cast<const Eigen::half*>(from) + first;
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

void read_bf16(const std::byte* from, Index first, Index count, CacheLevels, Real* to) {
  // Written as shifts, which the compiler vectorises.
  const auto* const numbers = reinterpret_cast<const Eigen::bfloat16*>(from) + first;
  for (Index i = 0; i < count; ++i)
    to[i] = static_cast<Real>(std::bit_cast<float>(std::uint32_t{numbers[i].value} << 16));
}

// The numbers of all codes of e4m3: sign, 4 bits of exponent with a bias of 7, 3 of fraction.
const std::array<Real, 256>& fp8_numbers() {
  static const std::array<Real, 256> all = [] {
    std::array<Real, 256> numbers;
    for (int code = 0; code < 128; ++code) {
      const int exponent = code >> 3, fraction = code & 7;
      const double size =
          std::ldexp(exponent == 0 ? fraction : 8 + fraction, std::max(exponent, 1) - 10);
      numbers[static_cast<std::size_t>(code)] = code == 127 ? kNaN : static_cast<Real>(size);
      numbers[static_cast<std::size_t>(code + 128)] = -numbers[static_cast<std::size_t>(code)];
    }
    return numbers;
  }();
  return all;
}

// Rounds to nearest, a number half way to the even code; infinities, which e4m3 lacks, to NaN.
void pack_fp8(const Real* from, Index count, CacheLevels, std::byte* to) {
  constexpr Real kLimit = 464;  // half way from 448 to 480
  const auto& numbers = fp8_numbers();
  const auto *const begin = numbers.data(), *const end = begin + 127;
  for (Index i = 0; i < count; ++i) {
    const Real size = std::abs(from[i]);
    if (std::isfinite(size) && size > kLimit)
      refuse_overflow("fp8", size, static_cast<double>(numbers[126]), "bf16, int8 or f32");
    Index code = 127;
    if (std::isfinite(size)) {
      code = std::min<Index>(std::upper_bound(begin, end, size) - begin, 126);
      const Real above = begin[code] - size, below = size - begin[code - 1];
      if (below < above || (below == above && code % 2 == 1)) --code;
    }
    to[i] = static_cast<std::byte>(code + (std::signbit(from[i]) ? 128 : 0));
  }
}

void read_fp8(const std::byte* from, Index first, Index count, CacheLevels, Real* to) {
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(from + first);
  const Real* const numbers = fp8_numbers().data();
  Index i = 0;
#if defined(__AVX2__) && defined(__F16C__) && !defined(HEADCOUNT_DOUBLE)
  // The bits of a code make an f16 number, 2^8 times as small, which the processor reads; only NaN
  // has another one. A table takes several times as long.
  const __m256i size = _mm256_set1_epi8(127);
  const __m128i kept = _mm_set1_epi16(static_cast<short>(0xbf80));
  for (; i + 32 <= count; i += 32) {
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(all, size), size)) != 0) {
      for (Index k = i; k < i + 32; ++k) to[k] = numbers[codes[k]];
      continue;
    }
    for (Index k = i; k < i + 32; k += 8) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + k));
      const __m128i halves = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(eight), 7), kept);
      _mm256_storeu_ps(to + k, _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256)));
    }
  }
#endif
  for (; i < count; ++i) to[i] = numbers[codes[i]];
}

// Positive levels of Lloyd and Max for standard normal numbers, by bits.
constexpr Real kNormalLevels[4][8] = {{Real(0.7979)},
                                      {Real(0.4528), Real(1.510)},
                                      {Real(0.2451), Real(0.7560), Real(1.344), Real(2.152)},
                                      {Real(0.1284), Real(0.3881), Real(0.6568), Real(0.9424),
                                       Real(1.256), Real(1.618), Real(2.069), Real(2.733)}};

// Levels in the order of their codes of `bits` bits. Those of fewer than 4 bits are repeated, so
// that the bits above a code do not matter.
constexpr std::array<Real, 16> normal_levels(int bits) {
  std::array<Real, 16> all = {};
  const int count = 1 << bits, half = count / 2;
  for (int i = 0; i < 16; ++i) {
    const int code = i % count;
    const Real* const sizes = kNormalLevels[bits - 1];
    all[static_cast<std::size_t>(i)] = code < half ? -sizes[half - 1 - code] : sizes[code - half];
  }
  return all;
}
// Uniform ones: -steps, -steps + 2, ..., steps.
constexpr std::array<Real, 16> uniform_levels(int bits) {
  std::array<Real, 16> all = {};
  const int count = 1 << bits;
  for (int i = 0; i < 16; ++i)
    all[static_cast<std::size_t>(i)] = static_cast<Real>(2 * (i % count) - (count - 1));
  return all;
}

#if defined(__AVX2__) && !defined(HEADCOUNT_DOUBLE)
// Eight codes of `kBits` bits. Bytes are joined one by one: a copy of 3 bytes into a word would
// wait for memory.
template <int kBits>
std::int32_t word_at(const std::byte* codes) {
  std::uint32_t word = 0;
  for (int i = 0; i < kBits; ++i) word |= static_cast<std::uint32_t>(codes[i]) << (8 * i);
  return static_cast<std::int32_t>(word);
}

// The levels of codes, times a scale, in a register from which as many lanes take theirs.
#if defined(__AVX512F__)
struct LevelLanes {
  static constexpr Index kLanes = 16;
  __m512 levels;
  LevelLanes(const Real* all, Real scale)
      : levels(_mm512_mul_ps(_mm512_set1_ps(scale), _mm512_loadu_ps(all))) {}
  template <int kBits>
  void read(const std::byte* codes, float* to) const {
    constexpr int b = kBits;
    const __m512i shifts = _mm512_setr_epi32(0, b, 2 * b, 3 * b, 4 * b, 5 * b, 6 * b, 7 * b, 0, b,
                                             2 * b, 3 * b, 4 * b, 5 * b, 6 * b, 7 * b);
    const __m512i words = _mm512_mask_set1_epi32(_mm512_set1_epi32(word_at<kBits>(codes)), 0xff00,
                                                 word_at<kBits>(codes + kBits));
    _mm512_storeu_ps(to, _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts), levels));
  }
};
#else
struct LevelLanes {
  static constexpr Index kLanes = 8;
  __m256 lower, upper;
  LevelLanes(const Real* all, Real scale)
      : lower(_mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(all))),
        upper(_mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(all + 8))) {}
  template <int kBits>
  void read(const std::byte* codes, float* to) const {
    constexpr int b = kBits;
    const __m256i shifts = _mm256_setr_epi32(0, b, 2 * b, 3 * b, 4 * b, 5 * b, 6 * b, 7 * b);
    const __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(word_at<kBits>(codes)), shifts);
    __m256 numbers = _mm256_permutevar8x32_ps(lower, code);
    if constexpr (kBits == 4)
      numbers = _mm256_blendv_ps(numbers, _mm256_permutevar8x32_ps(upper, code),
                                 _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
    _mm256_storeu_ps(to, numbers);
  }
};
#endif
#endif

// Numbers as codes of `kBits` bits, 8 of them side by side in as many bytes, after the f16 scale of
// their group. Uniform levels are scale times -kSteps, -kSteps + 2, ..., kSteps, of int8 sixteenths
// of them, so that the scales of all types have about the same range. A scale of NaN marks a group
// with a number that is not finite.
template <int kBits, int kSteps>
struct Codes {
  using Scale = Eigen::half;
  static constexpr int kCodes = 1 << kBits;
  static constexpr Real kUnit = kBits == 8 ? Real{1} / 16 : Real{1};  // of uniform levels
  static constexpr int kFew = std::min(kBits, 4);                     // bits that have a table
  static constexpr std::array<Real, 16> kLevels[] = {uniform_levels(kFew), normal_levels(kFew)};

  static bool is_normal(CacheLevels kind) { return kBits <= 4 && kind == CacheLevels::normal; }

  static void pack(const Real* from, Index count, CacheLevels kind, std::byte* to) {
    const Real greatest = greatest_of(from, count);
    const Real size = is_normal(kind) ? std::sqrt(Numbers(from, count).square().mean())
                                      : greatest / (kSteps * kUnit);
    const auto scale = static_cast<Scale>(std::isfinite(greatest) ? size : kNaN);
    if (std::isfinite(greatest) && !std::isfinite(static_cast<Real>(scale))) {
      refuse_overflow("int" + std::to_string(kBits), greatest,
                      static_cast<double>(Eigen::NumTraits<Scale>::highest()) * kSteps *
                          static_cast<double>(kUnit),
                      "bf16 or f32");
    }
    std::memcpy(to, &scale, sizeof scale);
    const Real step = static_cast<Real>(scale) * kUnit, inverse = step > 0 ? 1 / step : 0;
    std::uint32_t open = 0;  // bits that fill no byte yet
    int held = 0;
    to += sizeof scale;
    for (Index i = 0; i < count; ++i) {
      open |= code_of(from[i] * inverse, kind) << held;
      for (held += kBits; held >= 8; held -= 8, open >>= 8) *to++ = static_cast<std::byte>(open);
    }
    if (held > 0) *to = static_cast<std::byte>(open);
  }

  static void read(const std::byte* from, Index first, Index count, CacheLevels kind, Real* to) {
    Scale stored;
    std::memcpy(&stored, from, sizeof stored);
    const Real scale = static_cast<Real>(stored) * kUnit;
    const std::byte* const codes = from + sizeof stored;
    Index i = 0;
    if constexpr (kBits == 8) {
      for (; i < count; ++i)
        to[i] = scale * static_cast<Real>(2 * static_cast<std::int32_t>(codes[first + i]) - kSteps);
    } else {
      const Real* const all = kLevels[static_cast<std::size_t>(kind)].data();
      const auto read_until = [&](Index end) {
        for (; i < end; ++i) to[i] = scale * all[code_at(codes, first + i)];
      };
      read_until(std::min(count, (8 - first % 8) % 8));
#if defined(__AVX2__) && !defined(HEADCOUNT_DOUBLE)
      const LevelLanes lanes(all, scale);
      for (; i + LevelLanes::kLanes <= count; i += LevelLanes::kLanes)
        lanes.template read<kBits>(codes + (first + i) / 8 * kBits, to + i);
#endif
      read_until(count);
    }
  }

 private:
  static std::uint32_t code_of(Real x, CacheLevels kind) {
    if (!std::isfinite(x)) return 0;
    if (is_normal(kind)) {
      const auto& all = kLevels[static_cast<std::size_t>(kind)];
      std::uint32_t code = 0;
      for (std::size_t i = 0; i + 1 < kCodes; ++i) code += x > (all[i] + all[i + 1]) / 2;
      return code;
    }
    constexpr Real kHalf = Real{0.5} * kSteps;
    return static_cast<std::uint32_t>(
        std::clamp(std::round(x / 2 + kHalf), Real{0}, static_cast<Real>(kSteps)));
  }

  static std::uint32_t code_at(const std::byte* codes, Index i) {
    const Index bit = i * kBits;
    auto word = static_cast<std::uint32_t>(codes[bit / 8]);
    if (bit % 8 + kBits > 8) word |= static_cast<std::uint32_t>(codes[bit / 8 + 1]) << 8;
    return word >> bit % 8 & (kCodes - 1);
  }
};

template <int kBits, int kSteps>
constexpr CacheTypeRow coded(std::string_view name, CacheType type) {
  using C = Codes<kBits, kSteps>;
  return {name, type, kBits, sizeof(typename C::Scale), kBits <= 4, C::pack, C::read};
}

}  // namespace

std::span<const CacheTypeRow> cache_types() {
  static constexpr CacheTypeRow kTypes[] = {
      {"f32", CacheType::real, 8 * sizeof(Real), 0, false, pack_real, read_real},
      {"f16", CacheType::f16, 16, 0, false, pack_float<Eigen::half, CacheType::f16>, read_f16},
      {"bf16", CacheType::bf16, 16, 0, false, pack_float<Eigen::bfloat16, CacheType::bf16>,
       read_bf16},
      {"fp8", CacheType::fp8, 8, 0, false, pack_fp8, read_fp8},
      coded<8, 254>("int8", CacheType::int8),
      coded<4, 15>("int4", CacheType::int4),
      coded<3, 7>("int3", CacheType::int3),
      coded<2, 3>("int2", CacheType::int2),
      coded<1, 1>("int1", CacheType::int1)};
  return kTypes;
}

std::int64_t row_bytes(const CacheFormat& format, Index width) {
  Index group = format.group > 0 ? std::min(format.group, width) : width;
  while (group > 0 && width % group != 0) --group;
  if (format.group > 0 && group != format.group)
    throw ShapeError("`cache-group` {} does not divide the {} numbers of a cached row; {} does",
                     format.group, width, group);
  if (format.rotated && width % 2 != 0)
    throw ShapeError(
        "`cache-rotate` rotates rows of an even number of numbers, and cached rows have {}; leave "
        "it out",
        width);
  const CacheTypeRow& type = row_of(format.type);
  const std::int64_t bits = std::int64_t{group} * type.bits;
  return group == 0 ? 0 : width / group * (type.scale_bytes + (bits + 7) / 8);
}

void rotate_row(Real* row, Index width, Index block) {
  const Real factor = static_cast<Real>(1 / std::sqrt(static_cast<double>(block)));
  for (Real* x = row; x < row + width; x += block) {
    for (Index half = 1; half < block; half *= 2) {
      for (Index i = 0; i < block; i += 2 * half) {
        for (Index j = i; j < i + half; ++j) {
          const Real a = x[j], b = x[j + half];
          x[j] = a + b, x[j + half] = a - b;
        }
      }
    }
    for (Index i = 0; i < block; ++i) x[i] *= factor;
  }
}

}  // namespace headcount
