#pragma once

#include <cstddef>

namespace Eigen {
struct bfloat16;
}

namespace headcount {

/// The number type of a build: float in library `headcount`, double in `headcount_d`.
/// A build choice instead of a template keeps every signature plain.
#ifdef HEADCOUNT_DOUBLE
using Real = double;
#else
using Real = float;
#endif

/// Sizes and positions. Signed, so that the difference of two indices can be negative.
using Index = std::ptrdiff_t;

}  // namespace headcount
