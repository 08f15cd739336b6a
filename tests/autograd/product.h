#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/any_size.h"
#include "autograd/evaluation.h"
#include "autograd/products.h"

namespace headcount {

/// A product c = a b of random matrices with rows that lie apart in memory.
struct Product {
  Index m, k, n;
  bool a_transposed, b_transposed;
  Write write;
  Index gap;  ///< between the end of a row and the next one
  std::vector<Real> a = normal_values("a", 0, (m + gap) * (k + gap));
  std::vector<Real> b = normal_values("b", 0, (k + gap) * (n + gap));
  std::vector<Real> c = normal_values("c", 0, m*(n + gap));

  ConstMatrix left() const { return operand(a, m, k, a_transposed); }
  ConstMatrix right() const { return operand(b, k, n, b_transposed); }

  /// c after kernel(c, a, b, write, precision...).
  template <class Kernel, class... Precisions>
  std::vector<Real> run(Kernel kernel, Precisions... precision) const {
    std::vector<Real> result = c;
    kernel(Matrix(result.data(), m, n, n + gap), left(), right(), write, precision...);
    return result;
  }
  /// Largest difference from the product by its definition, in double, over the deviation of its
  /// sums; elements between rows stay as they are.
  double error(const std::vector<Real>& got) const {
    // Numbers side by side: this loop is compiled without optimization.
    const std::vector<double> left_rows = packed(left()), right_rows = packed(right());
    std::vector<double> expected(c.begin(), c.end());
    for (Index i = 0; i < m; ++i) {
      double* const to = expected.data() + i * (n + gap);
      if (write == Write::assign) std::fill_n(to, n, 0.0);
      for (Index l = 0; l < k; ++l) {
        const double x = left_rows[static_cast<std::size_t>(i * k + l)];
        const double* const row = right_rows.data() + l * n;
        for (Index j = 0; j < n; ++j) to[j] += x * row[j];
      }
    }
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]));
    return worst / std::sqrt(static_cast<double>(k + 1));
  }

 private:
  static std::vector<double> packed(const ConstMatrix& x) {
    std::vector<double> numbers;
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j)
        numbers.push_back(static_cast<double>(x.transposed ? x.data[j * x.stride + i]
                                                           : x.data[i * x.stride + j]));
    }
    return numbers;
  }
  ConstMatrix operand(const std::vector<Real>& x, Index rows, Index cols, bool transposed) const {
    return transposed ? ConstMatrix(x.data(), cols, rows, rows + gap).transpose()
                      : ConstMatrix(x.data(), rows, cols, cols + gap);
  }
};

/// Product that rapidcheck draws: `least` to `most` rows and columns, sums of `least` to `deepest`.
inline Product any_product(Index least, Index most, Index deepest) {
  return {any_size(least, most), any_size(least, deepest), any_size(least, most),
          any_size(0, 1) == 1,   any_size(0, 1) == 1,      add_if(any_size(0, 1) == 1),
          any_size(0, 9)};
}

/// Products of few rows and of many, and one that is cut along k, in all ways to store and write.
inline std::vector<Product> products_for_threads() {
  std::vector<Product> all;
  for (const auto& [m, k] : {std::pair<Index, Index>{1, 130}, {7, 130}, {301, 130}, {20, 5000}}) {
    for (int flags = 0; flags < 8; ++flags)
      all.push_back({m, k, 75, (flags & 1) != 0, (flags & 2) != 0, add_if((flags & 4) != 0), 3});
  }
  return all;
}

}  // namespace headcount
