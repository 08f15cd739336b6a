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

  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

/// The matrix products of a forward and backward pass of `model` over `sequences`: three for each
/// matrix of a linear layer, seven for each head of each sequence (tiles that nobody sees
/// included).
std::vector<Product> pass_products(const LanguageModel& model, Index sequences);

/// Memory for the products of one step, and a way to run them all, as the step would: in as many
/// shards, through the same functions, on operands as large.
class ProductRun {
 public:
  ProductRun(std::vector<Product> of_one_shard, Index shards);
  void run();
  double macs() const;

 private:
  struct Operands {
    AlignedMemory a, b, c;
  };
  void run_shard(const Operands& operands) const;

  std::vector<Product> products_;
  Index shards_;
  std::vector<Operands> operands_;  // by thread
};

}  // namespace headcount
