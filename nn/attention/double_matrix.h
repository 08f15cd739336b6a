#pragma once

#include <span>
#include <vector>

#include "autograd/base/real.h"

/// Matrices in double, for computations on weights outside of training steps.
namespace headcount {

/// A matrix, stored row by row.
struct DoubleMatrix {
  Index rows = 0, columns = 0;
  std::vector<double> values;

  DoubleMatrix() = default;
  DoubleMatrix(Index r, Index c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}

  std::span<double> row(Index r) {
    return std::span(values).subspan(static_cast<std::size_t>(r * columns),
                                     static_cast<std::size_t>(columns));
  }
  std::span<const double> row(Index r) const {
    return std::span(values).subspan(static_cast<std::size_t>(r * columns),
                                     static_cast<std::size_t>(columns));
  }
  /// `count` rows or columns from `first` on.
  DoubleMatrix part(Index first, Index count) const;
  DoubleMatrix column_part(Index first, Index count) const;
  /// Stacks `below`, which has as many columns, under this matrix; one of the two may have no rows.
  void append(const DoubleMatrix& below);
  void operator*=(double factor);  ///< multiplies all elements
  /// Adds `other` element by element. Throws ShapeError unless it has the same size.
  void operator+=(const DoubleMatrix& other);
};

/// Matrix product a b. Throws ShapeError unless b has as many rows as a has columns.
DoubleMatrix product(const DoubleMatrix& a, const DoubleMatrix& b);
/// Copy of `a` with rows and columns exchanged.
DoubleMatrix transposed(const DoubleMatrix& a);
/// `a` with columns of zeros on its right, `columns` in all.
DoubleMatrix zero_padded(const DoubleMatrix& a, Index columns);

/// Best approximation of a matrix by a product of `left` [rows, rank] and `right` [rank, columns]
/// (Eckart and Young, 1936). Rows of `right` are right singular vectors, computed as eigenvectors
/// of the transpose times the matrix, which is accurate for singular values above 1e-8 of the
/// largest.
struct Factors {
  DoubleMatrix left, right;
};
/// Factors of the best approximation of rank `rank`, from 1 to the number of columns. With as many
/// as columns, their product is the matrix itself. Throws ShapeError for any other rank.
Factors factors(const DoubleMatrix& matrix, Index rank);
/// Least rank at which factors keep `share`, in (0, 1], of the matrix's sum of squares.
Index rank_for(const DoubleMatrix& matrix, double share);

// Matrices of heads consist of blocks of `width` rows.

/// Picks these rows of each block, in this order.
DoubleMatrix take_rows(const DoubleMatrix& matrix, Index width, const std::vector<Index>& rows);
/// Replaces every `count` successive blocks by their mean.
DoubleMatrix mean_of_blocks(const DoubleMatrix& matrix, Index width, Index count);
/// Repeats each block `count` times.
DoubleMatrix repeated_blocks(const DoubleMatrix& matrix, Index width, Index count);

}  // namespace headcount
