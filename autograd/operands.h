#pragma once

#include "autograd/products/bf16.h"
#include "autograd/tape.h"

/// Operands that are rounded to bfloat16 once for several products.
namespace headcount {

/// The value of x as a matrix, with its numbers in bfloat16, which the tape keeps for its step, if
/// products of `products` rows round them.
ConstMatrix operand(Tape& tape, Var x, Index rows, Index cols, Index products);

/// A gradient dy [rows, cols] as an operand of several products. The memory is of the tape's pool.
class GradientOperand {
 public:
  GradientOperand(Tape& tape, const Real* dy, Index rows, Index cols);
  ~GradientOperand();
  GradientOperand(const GradientOperand&) = delete;
  GradientOperand& operator=(const GradientOperand&) = delete;
  const ConstMatrix& matrix() const { return matrix_; }

 private:
  Tape& tape_;
  ConstMatrix matrix_;
  Real* memory_ = nullptr;
};

}  // namespace headcount
