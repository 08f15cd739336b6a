#pragma once

#include <span>
#include <vector>

#include "autograd/real.h"

/// Matrices in double, for what is computed of weights once and not in every step.

namespace headcount {

/// Row by row.
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
  /// Puts `below`, with as many columns, under it; one of the two may have no rows.
  void append(const DoubleMatrix& below);
  void operator*=(double factor);
  void operator+=(const DoubleMatrix& other);
};

DoubleMatrix product(const DoubleMatrix& a, const DoubleMatrix& b);
DoubleMatrix transposed(const DoubleMatrix& a);
DoubleMatrix zero_padded(const DoubleMatrix& a, Index columns);  ///< with so many columns

/// The best approximation of a matrix by a product of `left` [rows, rank] and `right` [rank,
/// columns] (Eckart and Young, 1936). The rows of `right` are orthonormal: right singular vectors,
/// as eigenvectors of the transpose times the matrix, which tell apart what is above 1e-8 of the
/// largest singular value.
struct Factors {
  DoubleMatrix left, right;
};
/// `rank` is from 1 to the number of columns; with all of them the product is the matrix itself.
Factors factors(const DoubleMatrix& matrix, Index rank);
/// The least rank with which factors keep `share`, in (0, 1], of the sum of squares.
Index rank_for(const DoubleMatrix& matrix, double share);

// Matrices of heads have blocks of rows, one after the other, each of `width`.

/// These rows of each block, in this order.
DoubleMatrix take_rows(const DoubleMatrix& matrix, Index width, const std::vector<Index>& rows);
/// Means of `count` successive blocks.
DoubleMatrix mean_of_blocks(const DoubleMatrix& matrix, Index width, Index count);
/// Each block `count` times.
DoubleMatrix repeated_blocks(const DoubleMatrix& matrix, Index width, Index count);

}  // namespace headcount
