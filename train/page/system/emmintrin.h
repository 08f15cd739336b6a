#pragma once

// SSE's intrinsics, which Eigen needs: it has vectors for x86, but none for WebAssembly. SIMDe
// writes them as vectors of the compiler; those of its own for WebAssembly are of one type for all
// numbers, where Eigen needs one each. Eigen includes headers of intrinsics as C.
#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_WASM_SIMD128_NO_NATIVE
#define SIMDE_FAST_CONVERSION_RANGE
extern "C++" {
#include <simde/x86/sse4.1.h>
}
// Exact, where x86 and SIMDe have an approximation.
#undef _mm_rsqrt_ps
#define _mm_rsqrt_ps(a) (_mm_set1_ps(1) / _mm_sqrt_ps(a))
