#pragma once

// Random123 refuses processors that it does not know. Its Philox is plain C++; here it takes this
// one for an ARM, without vectors.
#define R123_USE_SSE 0
#define R123_USE_MULHILO32_ASM 0
#define R123_USE_MULHILO64_ASM 0
#pragma push_macro("__aarch64__")
#define __aarch64__ 1
#include_next <Random123/philox.h>
#pragma pop_macro("__aarch64__")
