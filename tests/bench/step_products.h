#pragma once

#include <vector>

#include "autograd/arena.h"
#include "models/language_model.h"

namespace headcount {

/// c [rows, cols] = a [rows, k] b [k, cols], `count` times on different matrices.
struct Product {
  Index rows, cols, k;
  bool a_transposed, b_transposed;
  Index count;  ///< 1: one product, cut into chunks; more: side by side, one thread each

  bool operator==(const Product&) const = default;
  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

/// The matrix products of one training step of `model`, forward and backward: three for each
/// matrix of a linear layer, seven for each head of each sequence (tiles that nobody sees
/// included).
std::vector<Product> step_products(const LanguageModel& model, Index batch);

/// Memory for the products of one step, and a way to run them all, as the step would: through the
/// same functions, on operands as large.
class ProductRun {
 public:
  explicit ProductRun(std::vector<Product> products);
  void run();
  double macs() const;

 private:
  std::vector<Product> products_;
  AlignedMemory a_, b_, c_, scratch_;
};

}  // namespace headcount
