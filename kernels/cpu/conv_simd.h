// The vector operations of the convolution kernels, for AVX-512 (16 lanes) and AVX2 (8 lanes). The baseline build has none of them and
// leaves convolutions to the reference kernels.
#pragma once

#if defined(__AVX512F__) || defined(__AVX2__)
#define PERIGEE_CONV_SIMD 1
#include <immintrin.h>

// GCC 12 takes the undefined lanes inside its own AVX-512 intrinsics for uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <cstdint>
#include <cstring>

namespace perigee {
namespace {

#ifdef __AVX512F__
using V = __m512;
inline constexpr int kLanes = 16;
inline constexpr int kAccumulators = 28;  // of 32 registers

inline V v_zero() { return _mm512_setzero_ps(); }
inline V v_set(float a) { return _mm512_set1_ps(a); }
inline V v_load(const float* p) { return _mm512_loadu_ps(p); }
inline V v_load(const float* p, int n) { return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p); }
inline void v_store(float* p, V v) { _mm512_storeu_ps(p, v); }
inline void v_store(float* p, V v, int n) { _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v); }
inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V v_add(V a, V b) { return _mm512_add_ps(a, b); }
inline V v_max(V a, V b) { return _mm512_max_ps(a, b); }  // b where either is NaN
inline float v_sum(V v) { return _mm512_reduce_add_ps(v); }
#else
using V = __m256;
inline constexpr int kLanes = 8;
inline constexpr int kAccumulators = 12;  // of 16 registers

alignas(32) inline constexpr int32_t kMaskTable[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
inline __m256i v_mask(int n) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskTable + 8 - n)); }

inline V v_zero() { return _mm256_setzero_ps(); }
inline V v_set(float a) { return _mm256_set1_ps(a); }
inline V v_load(const float* p) { return _mm256_loadu_ps(p); }
inline V v_load(const float* p, int n) { return _mm256_maskload_ps(p, v_mask(n)); }
inline void v_store(float* p, V v) { _mm256_storeu_ps(p, v); }
inline void v_store(float* p, V v, int n) { _mm256_maskstore_ps(p, v_mask(n), v); }
inline V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V v_add(V a, V b) { return _mm256_add_ps(a, b); }
inline V v_max(V a, V b) { return _mm256_max_ps(a, b); }
inline float v_sum(V v) {
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
#endif

// The float at base + index * Scale, in all lanes. Written out because compilers turn a tile's twenty addresses into twenty pointers
// and spill them, where five registers do.
constexpr int64_t kReach = 1 << 20;  // floats that the compiler takes for read: clang needs a number
template <int Scale>
inline V v_spread(const char* base, long index) {
  V r;
  asm("vbroadcastss (%1,%2,%c3), %0" : "=v"(r) : "r"(base), "r"(index), "i"(Scale), "m"(*reinterpret_cast<const float(*)[kReach]>(base)));
  return r;
}
inline V v_spread(const char* base) {
  V r;
  asm("vbroadcastss (%1), %0" : "=v"(r) : "r"(base), "m"(*reinterpret_cast<const float(*)[kReach]>(base)));
  return r;
}

constexpr int64_t up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace
}  // namespace perigee
#endif
