#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// Extents of a tensor of up to four dimensions, row-major: the last one is contiguous.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;  ///< a scalar
  /// Shape with these extents. Throws ShapeError for a negative extent, for more than kMaxRank
  /// dimensions, and if the elements of such a tensor overflow an Index or, in double, their bytes
  /// 64 bits.
  Shape(std::initializer_list<Index> extents);

  int rank() const { return rank_; }
  /// Extent of dimension `i`; negative `i` counts from the end.
  Index operator[](int i) const {
    return extents_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)];
  }
  Index last() const { return rank_ == 0 ? 1 : (*this)[-1]; }
  Index size() const;  ///< number of elements
  Index rows() const;  ///< product of all extents but the last

  /// A copy with this last extent. Throws ShapeError for a scalar, which has none.
  Shape with_last(Index extent) const;
  /// Adds a last dimension. Throws ShapeError as the constructor does.
  void append(Index extent);
  std::vector<std::int64_t> extents() const { return {extents_.begin(), extents_.begin() + rank_}; }
  bool operator==(const Shape& other) const = default;
  std::string text() const;  ///< "[12, 64, 128]"

 private:
  std::array<Index, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace headcount
