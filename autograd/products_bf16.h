#pragma once

#include "autograd/products.h"

/// Products of bfloat16 operands, as `gemm` calls them. Not part of the public interface.
namespace headcount {

/// Writes the product of the rounded operands to c with oneDNN, on the calling thread. Valid only
/// if `bf16_lacks` returns nothing; no extent is 0.
void onednn_bf16_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);

/// Writes the product a b to c: few rows of a as they are, and the rounded numbers of b [k, n],
/// which is stored transposed.
void few_rows_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b);

}  // namespace headcount
