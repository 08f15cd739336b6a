#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "autograd/base/real.h"

/// Number types of cached rows: a type is how many bits a number has, how a group of numbers is
/// packed and how it is read. A type is one entry of a table; no other code depends on the type.
namespace headcount {

/// Number type of a KV cache.
enum class CacheType {
  real,  ///< as computed: float32 in the float library
  f16,   ///< IEEE half
  bf16,  ///< bfloat16: the upper half of a float32, rounded to nearest even
  fp8,   ///< e4m3: 4 bits of exponent, 3 of fraction, at most 448, no infinity
  int8,  ///< an f16 scale for each group times one of 255 levels
  int4,  ///< an f16 scale for each group times one of 16 levels; int3 and int2 have fewer
  int3,
  int2,
  int1,
};

/// Levels of int4 to int1; numbers of a group are scaled to them.
enum class CacheLevels {
  uniform,  ///< equal steps from minus the greatest number to the greatest
  /// Levels with the least squared error for normally distributed numbers, scaled by the root mean
  /// square. Max, "Quantizing for minimum distortion" (1960).
  normal,
};

/// How the rows of a cache are stored.
struct CacheFormat {
  CacheFormat(CacheType number_type = CacheType::real) : type(number_type) {}

  CacheType type;
  Index group = 0;  ///< numbers that share a scale; 0: all of a row
  CacheLevels levels = CacheLevels::uniform;
  bool rotated = false;  ///< rows are multiplied by a Hadamard matrix, see `rotate_row`
  Index recent = 0;      ///< newest tokens of which rows are stored as Real
};

/// Entry of the table of types.
struct CacheTypeRow {
  std::string_view name;  ///< "int4"
  CacheType type;
  Index bits;         ///< of a number
  Index scale_bytes;  ///< of the scale of a group; 0: it has none
  bool has_levels;    ///< whether CacheFormat::levels has an effect
  /// Packs the `count` numbers of a group. Throws NonFiniteError for a finite number that is too
  /// large for the type.
  void (*pack)(const Real* from, Index count, CacheLevels levels, std::byte* to);
  /// Reads numbers [first, first + count) of a packed group, in any order of calls alike.
  void (*read)(const std::byte* from, Index first, Index count, CacheLevels levels, Real* to);
};
/// All types, in the order of their bits; `CacheType` is the index.
std::span<const CacheTypeRow> cache_types();
inline const CacheTypeRow& row_of(CacheType type) {
  return cache_types()[static_cast<std::size_t>(type)];
}

/// Bytes of a row of `width` numbers: each group begins at a byte, with its scale. Throws
/// ShapeError if groups do not divide the width, and if the width is odd but the row rotated.
std::int64_t row_bytes(const CacheFormat& format, Index width);

/// Size of the blocks in which `rotate_row` rotates rows of that width: the greatest power of two
/// that divides the width.
inline Index rotated_block(Index width) { return width & -width; }
/// Multiplies each `block` of `row` by the Hadamard matrix of that size over its square root, which
/// is its own inverse: numbers of any distribution become nearly normal, products of two rotated
/// rows stay. Ashkboos et al., "QuaRot" (2024).
void rotate_row(Real* row, Index width, Index block);

}  // namespace headcount
