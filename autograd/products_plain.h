#pragma once

#include "autograd/products.h"

namespace headcount {

/// `gemm` in Real with vectors of 16 bytes, for processors that Eigen has no vectors for, such as
/// WebAssembly. Operands have `data`.
void plain_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write);

}  // namespace headcount
