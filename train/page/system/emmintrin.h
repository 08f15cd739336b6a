#pragma once

#include <wasm_simd128.h>

/// The intrinsics of SSE2 and SSE4.1 that Eigen uses, written with WebAssembly's vectors of 128
/// bits: Eigen 3.4 has vectors for x86, but none for WebAssembly. Names and meanings are Intel's:
/// intel.com/content/www/us/en/docs/intrinsics-guide. Masks have all bits of an element equal, as
/// comparisons make them.

typedef float __m128 __attribute__((__vector_size__(16), __aligned__(16)));
typedef double __m128d __attribute__((__vector_size__(16), __aligned__(16)));
typedef long long __m128i __attribute__((__vector_size__(16), __aligned__(16)));
typedef long long __m64 __attribute__((__vector_size__(8), __aligned__(8)));

#define HEADCOUNT_VECTOR static inline __attribute__((__always_inline__, __nodebug__))

typedef int headcount_i32x4 __attribute__((__vector_size__(16), __aligned__(16)));
typedef unsigned headcount_u32x4 __attribute__((__vector_size__(16), __aligned__(16)));
typedef short headcount_i16x8 __attribute__((__vector_size__(16), __aligned__(16)));
typedef unsigned short headcount_u16x8 __attribute__((__vector_size__(16), __aligned__(16)));
typedef char headcount_i8x16 __attribute__((__vector_size__(16), __aligned__(16)));
typedef unsigned long long headcount_u64x2 __attribute__((__vector_size__(16), __aligned__(16)));

// Casts.
#define HEADCOUNT_CAST(name, From, To) \
  HEADCOUNT_VECTOR To name(From a) { return (To)a; }
HEADCOUNT_CAST(_mm_castps_pd, __m128, __m128d)
HEADCOUNT_CAST(_mm_castps_si128, __m128, __m128i)
HEADCOUNT_CAST(_mm_castpd_ps, __m128d, __m128)
HEADCOUNT_CAST(_mm_castpd_si128, __m128d, __m128i)
HEADCOUNT_CAST(_mm_castsi128_ps, __m128i, __m128)
HEADCOUNT_CAST(_mm_castsi128_pd, __m128i, __m128d)

// Constants.
HEADCOUNT_VECTOR __m128 _mm_setzero_ps(void) { return (__m128){0, 0, 0, 0}; }
HEADCOUNT_VECTOR __m128d _mm_setzero_pd(void) { return (__m128d){0, 0}; }
HEADCOUNT_VECTOR __m128i _mm_setzero_si128(void) { return (__m128i){0, 0}; }
HEADCOUNT_VECTOR __m128 _mm_set1_ps(float a) { return (__m128){a, a, a, a}; }
HEADCOUNT_VECTOR __m128 _mm_set_ps1(float a) { return (__m128){a, a, a, a}; }
HEADCOUNT_VECTOR __m128 _mm_set_ss(float a) { return (__m128){a, 0, 0, 0}; }
HEADCOUNT_VECTOR __m128 _mm_set_ps(float d, float c, float b, float a) {
  return (__m128){a, b, c, d};
}
HEADCOUNT_VECTOR __m128d _mm_set1_pd(double a) { return (__m128d){a, a}; }
HEADCOUNT_VECTOR __m128d _mm_set_sd(double a) { return (__m128d){a, 0}; }
HEADCOUNT_VECTOR __m128d _mm_set_pd(double b, double a) { return (__m128d){a, b}; }
HEADCOUNT_VECTOR __m128i _mm_set1_epi32(int a) { return (__m128i)(headcount_i32x4){a, a, a, a}; }
HEADCOUNT_VECTOR __m128i _mm_set_epi32(int d, int c, int b, int a) {
  return (__m128i)(headcount_i32x4){a, b, c, d};
}
HEADCOUNT_VECTOR __m128i _mm_setr_epi32(int a, int b, int c, int d) {
  return (__m128i)(headcount_i32x4){a, b, c, d};
}
HEADCOUNT_VECTOR __m128i _mm_set1_epi64x(long long a) { return (__m128i){a, a}; }
HEADCOUNT_VECTOR __m128i _mm_set_epi64x(long long b, long long a) { return (__m128i){a, b}; }
HEADCOUNT_VECTOR __m128i _mm_set1_epi8(char a) { return (__m128i)wasm_i8x16_splat(a); }
HEADCOUNT_VECTOR __m128i _mm_set_epi8(char p, char o, char n, char m, char l, char k, char j,
                                      char i, char h, char g, char f, char e, char d, char c,
                                      char b, char a) {
  return (__m128i)(headcount_i8x16){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
}

// Memory.
HEADCOUNT_VECTOR __m128 _mm_load_ps(const float* p) { return *(const __m128*)p; }
HEADCOUNT_VECTOR __m128 _mm_loadu_ps(const float* p) { return (__m128)wasm_v128_load(p); }
HEADCOUNT_VECTOR __m128 _mm_load1_ps(const float* p) { return (__m128)wasm_v128_load32_splat(p); }
HEADCOUNT_VECTOR __m128 _mm_load_ss(const float* p) { return (__m128)wasm_v128_load32_zero(p); }
HEADCOUNT_VECTOR __m128d _mm_load_pd(const double* p) { return *(const __m128d*)p; }
HEADCOUNT_VECTOR __m128d _mm_loadu_pd(const double* p) { return (__m128d)wasm_v128_load(p); }
HEADCOUNT_VECTOR __m128d _mm_load_sd(const double* p) { return (__m128d)wasm_v128_load64_zero(p); }
HEADCOUNT_VECTOR __m128i _mm_load_si128(const __m128i* p) { return *p; }
HEADCOUNT_VECTOR __m128i _mm_loadu_si128(const __m128i* p) { return (__m128i)wasm_v128_load(p); }
HEADCOUNT_VECTOR __m128i _mm_loadl_epi64(const __m128i* p) {
  return (__m128i)wasm_v128_load64_zero(p);
}
HEADCOUNT_VECTOR void _mm_store_ps(float* p, __m128 a) { *(__m128*)p = a; }
HEADCOUNT_VECTOR void _mm_storeu_ps(float* p, __m128 a) { wasm_v128_store(p, (v128_t)a); }
HEADCOUNT_VECTOR void _mm_store_pd(double* p, __m128d a) { *(__m128d*)p = a; }
HEADCOUNT_VECTOR void _mm_storeu_pd(double* p, __m128d a) { wasm_v128_store(p, (v128_t)a); }
HEADCOUNT_VECTOR void _mm_store_si128(__m128i* p, __m128i a) { *p = a; }
HEADCOUNT_VECTOR void _mm_storeu_si128(__m128i* p, __m128i a) { wasm_v128_store(p, (v128_t)a); }
HEADCOUNT_VECTOR void _mm_storel_pi(__m64* p, __m128 a) { wasm_v128_store64_lane(p, (v128_t)a, 0); }
#define _MM_HINT_T0 3
#define _mm_prefetch(address, hint) ((void)(address))

// First elements.
HEADCOUNT_VECTOR float _mm_cvtss_f32(__m128 a) { return a[0]; }
HEADCOUNT_VECTOR double _mm_cvtsd_f64(__m128d a) { return a[0]; }
HEADCOUNT_VECTOR int _mm_cvtsi128_si32(__m128i a) { return ((headcount_i32x4)a)[0]; }

// Arithmetic.
#define HEADCOUNT_BINARY(name, Vector, Numbers, operation) \
  HEADCOUNT_VECTOR Vector name(Vector a, Vector b) {       \
    return (Vector)((Numbers)a operation(Numbers) b);      \
  }
HEADCOUNT_BINARY(_mm_add_ps, __m128, __m128, +)
HEADCOUNT_BINARY(_mm_sub_ps, __m128, __m128, -)
HEADCOUNT_BINARY(_mm_mul_ps, __m128, __m128, *)
HEADCOUNT_BINARY(_mm_div_ps, __m128, __m128, /)
HEADCOUNT_BINARY(_mm_add_pd, __m128d, __m128d, +)
HEADCOUNT_BINARY(_mm_sub_pd, __m128d, __m128d, -)
HEADCOUNT_BINARY(_mm_mul_pd, __m128d, __m128d, *)
HEADCOUNT_BINARY(_mm_div_pd, __m128d, __m128d, /)
HEADCOUNT_BINARY(_mm_add_epi32, __m128i, headcount_u32x4, +)
HEADCOUNT_BINARY(_mm_sub_epi32, __m128i, headcount_u32x4, -)
HEADCOUNT_BINARY(_mm_mullo_epi32, __m128i, headcount_u32x4, *)

// The first element is computed, the others are those of a.
#define HEADCOUNT_FIRST(name, Vector, value)         \
  HEADCOUNT_VECTOR Vector name(Vector a, Vector b) { \
    a[0] = (value);                                  \
    return a;                                        \
  }
HEADCOUNT_FIRST(_mm_add_ss, __m128, a[0] + b[0])
HEADCOUNT_FIRST(_mm_mul_ss, __m128, a[0] * b[0])
HEADCOUNT_FIRST(_mm_min_ss, __m128, a[0] < b[0] ? a[0] : b[0])
HEADCOUNT_FIRST(_mm_max_ss, __m128, a[0] > b[0] ? a[0] : b[0])
HEADCOUNT_FIRST(_mm_add_sd, __m128d, a[0] + b[0])
HEADCOUNT_FIRST(_mm_mul_sd, __m128d, a[0] * b[0])
HEADCOUNT_FIRST(_mm_min_sd, __m128d, a[0] < b[0] ? a[0] : b[0])
HEADCOUNT_FIRST(_mm_max_sd, __m128d, a[0] > b[0] ? a[0] : b[0])

HEADCOUNT_VECTOR __m128 _mm_sqrt_ps(__m128 a) { return (__m128)wasm_f32x4_sqrt((v128_t)a); }
HEADCOUNT_VECTOR __m128d _mm_sqrt_pd(__m128d a) { return (__m128d)wasm_f64x2_sqrt((v128_t)a); }
HEADCOUNT_VECTOR __m128 _mm_sqrt_ss(__m128 a) {
  a[0] = __builtin_sqrtf(a[0]);
  return a;
}
// Exact here, where x86 has an approximation.
HEADCOUNT_VECTOR __m128 _mm_rsqrt_ps(__m128 a) { return _mm_set1_ps(1) / _mm_sqrt_ps(a); }

// As on x86: b if an element is not a number. These are WebAssembly's pmin and pmax of b and a.
HEADCOUNT_VECTOR __m128 _mm_min_ps(__m128 a, __m128 b) {
  return (__m128)wasm_f32x4_pmin((v128_t)b, (v128_t)a);
}
HEADCOUNT_VECTOR __m128 _mm_max_ps(__m128 a, __m128 b) {
  return (__m128)wasm_f32x4_pmax((v128_t)b, (v128_t)a);
}
HEADCOUNT_VECTOR __m128d _mm_min_pd(__m128d a, __m128d b) {
  return (__m128d)wasm_f64x2_pmin((v128_t)b, (v128_t)a);
}
HEADCOUNT_VECTOR __m128d _mm_max_pd(__m128d a, __m128d b) {
  return (__m128d)wasm_f64x2_pmax((v128_t)b, (v128_t)a);
}
HEADCOUNT_VECTOR __m128i _mm_min_epi32(__m128i a, __m128i b) {
  return (__m128i)wasm_i32x4_min((v128_t)a, (v128_t)b);
}
HEADCOUNT_VECTOR __m128i _mm_max_epi32(__m128i a, __m128i b) {
  return (__m128i)wasm_i32x4_max((v128_t)a, (v128_t)b);
}

// Rounding.
#define _MM_FROUND_TO_NEAREST_INT 0
#define _MM_FROUND_TO_ZERO 3
#define _MM_FROUND_CUR_DIRECTION 4  // to nearest even: WebAssembly has no other direction
HEADCOUNT_VECTOR __m128 _mm_round_ps(__m128 a, int direction) {
  return direction == _MM_FROUND_TO_ZERO ? (__m128)wasm_f32x4_trunc((v128_t)a)
                                         : (__m128)wasm_f32x4_nearest((v128_t)a);
}
HEADCOUNT_VECTOR __m128d _mm_round_pd(__m128d a, int direction) {
  return direction == _MM_FROUND_TO_ZERO ? (__m128d)wasm_f64x2_trunc((v128_t)a)
                                         : (__m128d)wasm_f64x2_nearest((v128_t)a);
}
HEADCOUNT_VECTOR __m128 _mm_floor_ps(__m128 a) { return (__m128)wasm_f32x4_floor((v128_t)a); }
HEADCOUNT_VECTOR __m128 _mm_ceil_ps(__m128 a) { return (__m128)wasm_f32x4_ceil((v128_t)a); }
HEADCOUNT_VECTOR __m128d _mm_floor_pd(__m128d a) { return (__m128d)wasm_f64x2_floor((v128_t)a); }
HEADCOUNT_VECTOR __m128d _mm_ceil_pd(__m128d a) { return (__m128d)wasm_f64x2_ceil((v128_t)a); }

// Conversions.
HEADCOUNT_VECTOR __m128i _mm_cvttps_epi32(__m128 a) {
  return (__m128i)wasm_i32x4_trunc_sat_f32x4((v128_t)a);
}
HEADCOUNT_VECTOR __m128 _mm_cvtepi32_ps(__m128i a) {
  return (__m128)wasm_f32x4_convert_i32x4((v128_t)a);
}
HEADCOUNT_VECTOR __m128d _mm_cvtepi32_pd(__m128i a) {
  return (__m128d)wasm_f64x2_convert_low_i32x4((v128_t)a);
}
HEADCOUNT_VECTOR __m128i _mm_cvtpd_epi32(__m128d a) {
  return (__m128i)wasm_i32x4_trunc_sat_f64x2_zero(wasm_f64x2_nearest((v128_t)a));
}
HEADCOUNT_VECTOR __m128 _mm_cvtpd_ps(__m128d a) {
  return (__m128)wasm_f32x4_demote_f64x2_zero((v128_t)a);
}
HEADCOUNT_VECTOR __m128d _mm_cvtps_pd(__m128 a) {
  return (__m128d)wasm_f64x2_promote_low_f32x4((v128_t)a);
}

// Bits.
#define HEADCOUNT_BITS(suffix, Vector)                              \
  HEADCOUNT_VECTOR Vector _mm_and_##suffix(Vector a, Vector b) {    \
    return (Vector)((__m128i)a & (__m128i)b);                       \
  }                                                                 \
  HEADCOUNT_VECTOR Vector _mm_andnot_##suffix(Vector a, Vector b) { \
    return (Vector)(~(__m128i)a & (__m128i)b);                      \
  }                                                                 \
  HEADCOUNT_VECTOR Vector _mm_or_##suffix(Vector a, Vector b) {     \
    return (Vector)((__m128i)a | (__m128i)b);                       \
  }                                                                 \
  HEADCOUNT_VECTOR Vector _mm_xor_##suffix(Vector a, Vector b) {    \
    return (Vector)((__m128i)a ^ (__m128i)b);                       \
  }
HEADCOUNT_BITS(ps, __m128)
HEADCOUNT_BITS(pd, __m128d)
HEADCOUNT_BITS(si128, __m128i)

HEADCOUNT_VECTOR __m128 _mm_blendv_ps(__m128 a, __m128 b, __m128 mask) {
  return (__m128)wasm_v128_bitselect((v128_t)b, (v128_t)a, (v128_t)mask);
}
HEADCOUNT_VECTOR __m128d _mm_blendv_pd(__m128d a, __m128d b, __m128d mask) {
  return (__m128d)wasm_v128_bitselect((v128_t)b, (v128_t)a, (v128_t)mask);
}
HEADCOUNT_VECTOR __m128i _mm_blendv_epi8(__m128i a, __m128i b, __m128i mask) {
  return (__m128i)wasm_v128_bitselect((v128_t)b, (v128_t)a, (v128_t)mask);
}
HEADCOUNT_VECTOR int _mm_movemask_ps(__m128 a) { return (int)wasm_i32x4_bitmask((v128_t)a); }

#define HEADCOUNT_SHIFT(name, Numbers, operation)      \
  HEADCOUNT_VECTOR __m128i name(__m128i a, int bits) { \
    return (__m128i)((Numbers)a operation bits);       \
  }
HEADCOUNT_SHIFT(_mm_slli_epi16, headcount_u16x8, <<)
HEADCOUNT_SHIFT(_mm_srli_epi16, headcount_u16x8, >>)
HEADCOUNT_SHIFT(_mm_slli_epi32, headcount_u32x4, <<)
HEADCOUNT_SHIFT(_mm_srli_epi32, headcount_u32x4, >>)
HEADCOUNT_SHIFT(_mm_srai_epi32, headcount_i32x4, >>)
HEADCOUNT_SHIFT(_mm_slli_epi64, headcount_u64x2, <<)
HEADCOUNT_SHIFT(_mm_srli_epi64, headcount_u64x2, >>)

// Comparisons.
HEADCOUNT_BINARY(_mm_cmpeq_ps, __m128, __m128, ==)
HEADCOUNT_BINARY(_mm_cmplt_ps, __m128, __m128, <)
HEADCOUNT_BINARY(_mm_cmple_ps, __m128, __m128, <=)
HEADCOUNT_BINARY(_mm_cmpgt_ps, __m128, __m128, >)
HEADCOUNT_BINARY(_mm_cmpeq_pd, __m128d, __m128d, ==)
HEADCOUNT_BINARY(_mm_cmplt_pd, __m128d, __m128d, <)
HEADCOUNT_BINARY(_mm_cmple_pd, __m128d, __m128d, <=)
HEADCOUNT_BINARY(_mm_cmpgt_pd, __m128d, __m128d, >)
HEADCOUNT_BINARY(_mm_cmpeq_epi32, __m128i, headcount_i32x4, ==)
HEADCOUNT_BINARY(_mm_cmplt_epi32, __m128i, headcount_i32x4, <)
HEADCOUNT_BINARY(_mm_cmpgt_epi32, __m128i, headcount_i32x4, >)
HEADCOUNT_BINARY(_mm_cmpeq_epi8, __m128i, headcount_i8x16, ==)
HEADCOUNT_VECTOR __m128 _mm_cmpnge_ps(__m128 a, __m128 b) { return (__m128) ~(a >= b); }
HEADCOUNT_VECTOR __m128d _mm_cmpnge_pd(__m128d a, __m128d b) { return (__m128d) ~(a >= b); }

// Order of elements.
#define _MM_SHUFFLE(d, c, b, a) ((d) << 6 | (c) << 4 | (b) << 2 | (a))
#define _mm_shuffle_ps(a, b, mask)                                                      \
  ((__m128)__builtin_shufflevector((__m128)(a), (__m128)(b), (mask)&3, (mask) >> 2 & 3, \
                                   ((mask) >> 4 & 3) + 4, ((mask) >> 6 & 3) + 4))
#define _mm_shuffle_pd(a, b, mask) \
  ((__m128d)__builtin_shufflevector((__m128d)(a), (__m128d)(b), (mask)&1, ((mask) >> 1 & 1) + 2))
#define _mm_shuffle_epi32(a, mask)                                                                \
  ((__m128i)__builtin_shufflevector((headcount_i32x4)(__m128i)(a), (headcount_i32x4)(__m128i)(a), \
                                    (mask)&3, (mask) >> 2 & 3, (mask) >> 4 & 3, (mask) >> 6 & 3))
#define _mm_shufflelo_epi16(a, mask)                                                            \
  ((__m128i)__builtin_shufflevector((headcount_i16x8)(a), (headcount_i16x8)(a), (mask)&3,       \
                                    (mask) >> 2 & 3, (mask) >> 4 & 3, (mask) >> 6 & 3, 4, 5, 6, \
                                    7))
#define _mm_shufflehi_epi16(a, mask)                                                              \
  ((__m128i)__builtin_shufflevector((headcount_i16x8)(a), (headcount_i16x8)(a), 0, 1, 2, 3,       \
                                    ((mask)&3) + 4, ((mask) >> 2 & 3) + 4, ((mask) >> 4 & 3) + 4, \
                                    ((mask) >> 6 & 3) + 4))
#define HEADCOUNT_SHUFFLE(name, Vector, Numbers, ...)                            \
  HEADCOUNT_VECTOR Vector name(Vector a, Vector b) {                             \
    return (Vector)__builtin_shufflevector((Numbers)a, (Numbers)b, __VA_ARGS__); \
  }
HEADCOUNT_SHUFFLE(_mm_movehl_ps, __m128, __m128, 6, 7, 2, 3)
HEADCOUNT_SHUFFLE(_mm_movelh_ps, __m128, __m128, 0, 1, 4, 5)
HEADCOUNT_SHUFFLE(_mm_unpacklo_ps, __m128, __m128, 0, 4, 1, 5)
HEADCOUNT_SHUFFLE(_mm_unpackhi_ps, __m128, __m128, 2, 6, 3, 7)
HEADCOUNT_SHUFFLE(_mm_unpacklo_pd, __m128d, __m128d, 0, 2)
HEADCOUNT_SHUFFLE(_mm_unpackhi_pd, __m128d, __m128d, 1, 3)
HEADCOUNT_SHUFFLE(_mm_unpacklo_epi64, __m128i, __m128i, 0, 2)
HEADCOUNT_SHUFFLE(_mm_unpackhi_epi64, __m128i, __m128i, 1, 3)
HEADCOUNT_SHUFFLE(_mm_unpacklo_epi32, __m128i, headcount_i32x4, 0, 4, 1, 5)
HEADCOUNT_SHUFFLE(_mm_unpackhi_epi32, __m128i, headcount_i32x4, 2, 6, 3, 7)
HEADCOUNT_SHUFFLE(_mm_unpacklo_epi16, __m128i, headcount_i16x8, 0, 8, 1, 9, 2, 10, 3, 11)
HEADCOUNT_SHUFFLE(_mm_unpackhi_epi16, __m128i, headcount_i16x8, 4, 12, 5, 13, 6, 14, 7, 15)
HEADCOUNT_SHUFFLE(_mm_unpacklo_epi8, __m128i, headcount_i8x16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                  21, 6, 22, 7, 23)
HEADCOUNT_SHUFFLE(_mm_unpackhi_epi8, __m128i, headcount_i8x16, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                  13, 29, 14, 30, 15, 31)

#define _MM_TRANSPOSE4_PS(row0, row1, row2, row3)                                           \
  do {                                                                                      \
    const __m128 low01 = _mm_unpacklo_ps(row0, row1), high01 = _mm_unpackhi_ps(row0, row1); \
    const __m128 low23 = _mm_unpacklo_ps(row2, row3), high23 = _mm_unpackhi_ps(row2, row3); \
    row0 = _mm_movelh_ps(low01, low23);                                                     \
    row1 = _mm_movehl_ps(low23, low01);                                                     \
    row2 = _mm_movelh_ps(high01, high23);                                                   \
    row3 = _mm_movehl_ps(high23, high01);                                                   \
  } while (0)
