#include "autograd/shape.h"

#include "autograd/base/count.h"
#include "autograd/base/error.h"

namespace headcount {

Shape::Shape(std::initializer_list<Index> extents) {
  for (const Index extent : extents) append(extent);
}

Index Shape::size() const {
  Index product = 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

Index Shape::rows() const {
  Index product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product *= (*this)[i];
  return product;
}

Shape Shape::with_last(Index extent) const {
  Shape result = *this;
  if (rank_ == 0) throw ShapeError("a scalar has no last dimension to replace");
  result.extents_[static_cast<std::size_t>(rank_ - 1)] = extent;
  return result;
}

void Shape::append(Index extent) {
  if (extent < 0) throw ShapeError("a shape cannot have the negative extent {}", extent);
  if (rank_ == kMaxRank)
    throw ShapeError("a shape has at most 4 dimensions, got {} and one more", text());
  static_cast<void>(Count(size()) * extent * 8);  // bytes in double: throws if they overflow
  static_cast<void>((Count(size()) * extent).index());
  extents_[static_cast<std::size_t>(rank_++)] = extent;
}

std::string Shape::text() const {
  std::string result = "[";
  for (int i = 0; i < rank_; ++i) result += (i ? ", " : "") + std::to_string((*this)[i]);
  return result + "]";
}

}  // namespace headcount
