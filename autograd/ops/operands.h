#pragma once

#include "autograd/parallel.h"
#include "autograd/products.h"
#include "autograd/tape.h"

/// Operands of matrix products on a tape: in Real, or rounded with bf16. Not part of the public
/// interface.
namespace headcount {

/// Returns true if a product of these sizes reads rounded operands on `tape`.
inline bool reads_rounded(const Tape& tape, Index rows, Index cols, Index k) {
  return tape.precision() == Precision::bf16 && reads_rounded(rows, cols, k);
}

/// The value of x as a matrix. With `rounds` it has rounded numbers, and Real ones only if the tape
/// has them.
inline ConstMatrix operand(Tape& tape, Var x, Index rows, Index cols, bool rounds) {
  ConstMatrix result(rounds && tape.rounded_only(x) ? nullptr : tape.value(x), rows, cols);
  if (rounds || tape.is_rounded(x)) result.rounded = tape.rounded(x);
  return result;
}

/// A matrix and, if it `rounds`, its rounded copy, which is freed at the end of the scope: for
/// gradients, which no later product reads.
class PassingOperand {
 public:
  PassingOperand(BufferPool& pool, const Real* x, Index rows, Index cols, bool rounds)
      : pool_(pool), matrix_(x, rows, cols) {
    if (!rounds) return;
    constexpr Index kPerReal = static_cast<Index>(sizeof(Real) / sizeof(Bfloat16));
    memory_ = pool.take((rows * cols + kPerReal - 1) / kPerReal);
    auto* const rounded = reinterpret_cast<Bfloat16*>(memory_);
    parallel_chunks(rows * cols, kElementChunk, [=](Index begin, Index end) {
      round_to_bf16(x + begin, end - begin, rounded + begin);
    });
    matrix_.rounded = rounded;
  }
  ~PassingOperand() {
    if (memory_ != nullptr) pool_.give_back(memory_);
  }
  PassingOperand(const PassingOperand&) = delete;
  PassingOperand& operator=(const PassingOperand&) = delete;

  const ConstMatrix& matrix() const { return matrix_; }

 private:
  BufferPool& pool_;
  ConstMatrix matrix_;
  Real* memory_ = nullptr;
};

}  // namespace headcount
