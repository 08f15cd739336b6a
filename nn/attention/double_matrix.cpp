#include "nn/attention/double_matrix.h"

#include <Eigen/Eigenvalues>
#include <algorithm>

#include "autograd/base/error.h"

namespace headcount {

namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Dense> dense(const DoubleMatrix& m) {
  return {m.values.data(), m.rows, m.columns};
}
Eigen::Map<Dense> dense(DoubleMatrix& m) { return {m.values.data(), m.rows, m.columns}; }

void require(bool fits, const char* what) {
  if (!fits) throw ShapeError(what, " of matrices that do not fit together");
}

// Squared singular values and right singular vectors of `m`, least first: eigenvalues and
// eigenvectors of its transpose times itself. This compiles in a quarter of the time of Eigen's
// singular value decomposition, and loses singular values below 1e-8 of the largest.
Eigen::SelfAdjointEigenSolver<Dense> squared(const DoubleMatrix& m, int what) {
  const DoubleMatrix square = product(transposed(m), m);
  return Eigen::SelfAdjointEigenSolver<Dense>(dense(square), what);
}

}  // namespace

DoubleMatrix DoubleMatrix::part(Index first, Index count) const {
  require(first >= 0 && count >= 0 && first + count <= rows, "rows");
  DoubleMatrix result(count, columns);
  dense(result) = dense(*this).middleRows(first, count);
  return result;
}

DoubleMatrix DoubleMatrix::column_part(Index first, Index count) const {
  require(first >= 0 && count >= 0 && first + count <= columns, "columns");
  DoubleMatrix result(rows, count);
  dense(result) = dense(*this).middleCols(first, count);
  return result;
}

void DoubleMatrix::append(const DoubleMatrix& below) {
  if (below.rows == 0) return;
  if (rows == 0) columns = below.columns;
  require(below.columns == columns, "a pile");
  values.insert(values.end(), below.values.begin(), below.values.end());
  rows += below.rows;
}

void DoubleMatrix::operator*=(double factor) { dense(*this) *= factor; }

void DoubleMatrix::operator+=(const DoubleMatrix& other) {
  require(other.rows == rows && other.columns == columns, "a sum");
  dense(*this) += dense(other);
}

DoubleMatrix product(const DoubleMatrix& a, const DoubleMatrix& b) {
  require(a.columns == b.rows, "a product");
  DoubleMatrix result(a.rows, b.columns);
  dense(result).noalias() = dense(a) * dense(b);
  return result;
}

DoubleMatrix transposed(const DoubleMatrix& a) {
  DoubleMatrix result(a.columns, a.rows);
  dense(result) = dense(a).transpose();
  return result;
}

DoubleMatrix zero_padded(const DoubleMatrix& a, Index columns) {
  require(columns >= a.columns, "columns");
  DoubleMatrix result(a.rows, columns);
  dense(result).leftCols(a.columns) = dense(a);
  return result;
}

Factors factors(const DoubleMatrix& matrix, Index rank) {
  require(rank >= 1 && rank <= matrix.columns, "factors");
  const Eigen::SelfAdjointEigenSolver<Dense> solver = squared(matrix, Eigen::ComputeEigenvectors);
  DoubleMatrix right(rank, matrix.columns);
  dense(right) = solver.eigenvectors().rowwise().reverse().leftCols(rank).transpose();
  return {product(matrix, transposed(right)), std::move(right)};
}

Index rank_for(const DoubleMatrix& matrix, double share) {
  const Eigen::VectorXd squares = squared(matrix, Eigen::EigenvaluesOnly).eigenvalues().reverse();
  const double wanted = share * squares.sum();
  double kept = 0;
  Index rank = 0;
  while (rank < squares.size() && (rank == 0 || kept < wanted)) kept += squares[rank++];
  return rank;
}

DoubleMatrix take_rows(const DoubleMatrix& matrix, Index width, const std::vector<Index>& rows) {
  if (matrix.rows == 0) return matrix;
  DoubleMatrix result(matrix.rows / width * std::ssize(rows), matrix.columns);
  Index to = 0;
  for (Index block = 0; block < matrix.rows; block += width) {
    for (const Index row : rows)
      std::ranges::copy(matrix.row(block + row), result.row(to++).begin());
  }
  return result;
}

DoubleMatrix mean_of_blocks(const DoubleMatrix& matrix, Index width, Index count) {
  DoubleMatrix result;
  for (Index first = 0; first < matrix.rows; first += width * count) {
    DoubleMatrix sum = matrix.part(first, width);
    for (Index i = 1; i < count; ++i) sum += matrix.part(first + i * width, width);
    sum *= 1 / static_cast<double>(count);
    result.append(sum);
  }
  return result;
}

DoubleMatrix repeated_blocks(const DoubleMatrix& matrix, Index width, Index count) {
  std::vector<Index> rows;
  for (Index i = 0; i < width * count; ++i) rows.push_back(i % width);
  return take_rows(matrix, width, rows);
}

}  // namespace headcount
