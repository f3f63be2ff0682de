// Vectors of floats as wide as the instruction set has them, and the functions on them that the element-wise and softmax kernels share.
// Only for files that are compiled once per instruction set: everything lives in a namespace of its own for each.
// Measured against float64, in units of the last place: exp and log 1, expm1 1.4, log1p, sigmoid and softplus 2.4, erf 2.4, tanh 5.6.
#pragma once

// GCC's own AVX-512 header warns about its deliberately undefined registers.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Bits __attribute__((vector_size(kLanes * 4)));  // wraps around where Ints must not overflow

inline Floats load(const float* x) {
  Floats v;
  std::memcpy(&v, x, sizeof v);
  return v;
}

inline void store(float* x, Floats v) { std::memcpy(x, &v, sizeof v); }

// The first n lanes, 0 < n < kLanes; the others are 0.
#if defined(__AVX512F__)
inline Floats load_part(const float* x, int64_t n) {
  return reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), x));
}
inline void store_part(float* x, Floats v, int64_t n) {
  _mm512_mask_storeu_ps(x, static_cast<__mmask16>((1u << n) - 1u), reinterpret_cast<__m512>(v));
}
#elif defined(__AVX2__)
inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Floats load_part(const float* x, int64_t n) { return reinterpret_cast<Floats>(_mm256_maskload_ps(x, first_lanes(n))); }
inline void store_part(float* x, Floats v, int64_t n) { _mm256_maskstore_ps(x, first_lanes(n), reinterpret_cast<__m256>(v)); }
#else
inline Floats load_part(const float* x, int64_t n) {
  Floats v = {x[0]};
  if (n > 1) v[1] = x[1];
  if (n > 2) v[2] = x[2];
  return v;
}
inline void store_part(float* x, Floats v, int64_t n) {
  x[0] = v[0];
  if (n > 1) x[1] = v[1];
  if (n > 2) x[2] = v[2];
}
#endif

inline Floats all(float x) { return Floats{} + x; }
inline Ints as_ints(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats as_floats(Ints x) { return reinterpret_cast<Floats>(x); }
inline Floats choose(Ints mask, Floats a, Floats b) { return mask ? a : b; }
inline Floats magnitude(Floats x) { return as_floats(as_ints(x) & 0x7fffffff); }
inline Floats truth(Ints mask) { return as_floats(mask & 0x3f800000); }  // 1 or 0
// NaN when either is.
inline Floats larger(Floats a, Floats b) { return choose((a > b) | (a != a), a, b); }
inline Floats smaller(Floats a, Floats b) { return choose((a < b) | (a != a), a, b); }

#if defined(__AVX512F__)
inline Floats root(Floats x) { return reinterpret_cast<Floats>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x))); }
template <int mode>
Floats rounded(Floats x) {
  return reinterpret_cast<Floats>(_mm512_roundscale_ps(reinterpret_cast<__m512>(x), mode));
}
#elif defined(__AVX2__)
inline Floats root(Floats x) { return reinterpret_cast<Floats>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x))); }
template <int mode>
Floats rounded(Floats x) {
  return reinterpret_cast<Floats>(_mm256_round_ps(reinterpret_cast<__m256>(x), mode));
}
#else
inline Floats root(Floats x) { return reinterpret_cast<Floats>(_mm_sqrt_ps(reinterpret_cast<__m128>(x))); }
template <int mode>
Floats rounded(Floats x) {
  return reinterpret_cast<Floats>(_mm_round_ps(reinterpret_cast<__m128>(x), mode));
}
#endif

inline Ints lane_numbers() {
  Ints v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

// The first n lanes of v, `other` in the rest.
inline Floats first_or(Floats v, int64_t n, float other) { return choose(lane_numbers() < static_cast<int32_t>(n), v, all(other)); }

inline float sum_lanes(Floats v) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

inline float largest_lane(Floats v) {
  float top = v[0];
  for (int i = 1; i < kLanes; ++i) top = v[i] > top || v[i] != v[i] ? v[i] : top;
  return top;
}

// x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1. Polynomial of Cephes' expf (Moshier).
struct Reduced {
  Floats n, minus_one;
};

inline Reduced reduce_exp(Floats x) {
  const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  Floats n = x * 1.44269504088896341f + magic;
  n -= magic;
  const Floats r = x - n * 0.693359375f - n * -2.12194440e-4f;
  Floats p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {n, p * (r * r) + r};
}

// 2 to the n, for integers -126 <= n <= 127.
inline Floats power_of_two(Ints n) { return as_floats((n + 127) << 23); }

inline Floats exp_of(Floats x) {
  const Floats inside = choose(x < -87.3f, all(-87.3f), choose(x > 88.8f, all(88.8f), x));
  const Reduced reduced = reduce_exp(inside);
  const Ints n = __builtin_convertvector(reduced.n, Ints), half = n >> 1;
  // In two factors, since 2^128 is no float.
  const Floats y = (reduced.minus_one + 1.0f) * power_of_two(half) * power_of_two(n - half);
  return choose(x < -87.3f, Floats{}, choose(x != x, x, y));
}

inline Floats expm1_of(Floats x) {
  const Floats inside = choose(x < -30.0f, all(-30.0f), choose(x > 80.0f, all(80.0f), x));
  const Reduced reduced = reduce_exp(inside);
  const Floats scale = power_of_two(__builtin_convertvector(reduced.n, Ints));
  const Floats y = reduced.minus_one * scale + (scale - 1.0f);
  return choose((x > 80.0f) | (x != x), exp_of(x), y);
}

// Cephes' logf: x = 2^e m, sqrt(1/2) <= m < sqrt(2).
inline Floats log_of(Floats x) {
  const Ints tiny = x < 1.17549435e-38f;
  const Floats scaled = choose(tiny, x * 8388608.0f, x);
  const Ints bits = reinterpret_cast<Ints>(reinterpret_cast<Bits>(scaled) - 0x3f3504f3u);  // of sqrt(1/2)
  const Ints e = (bits >> 23) - (tiny & 23);
  const Floats m = as_floats((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const Floats z = m * m, exponent = __builtin_convertvector(e, Floats);
  Floats p = all(7.0376836292e-2f);
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  Floats y = p * (m * z) + exponent * -2.12194440e-4f;
  y = y - z * 0.5f;
  y = (m + y) + exponent * 0.693359375f;
  y = choose(x == __builtin_inff(), x, y);
  y = choose(x == 0.0f, all(-__builtin_inff()), y);
  return choose((x < 0.0f) | (x != x), all(__builtin_nanf("")), y);
}

// log(u) x / (u - 1) with u = 1 + x as rounded (Goldberg, 1991).
inline Floats log1p_of(Floats x) {
  const Floats u = x + 1.0f;
  const Floats y = log_of(u) * (x / (u - 1.0f));
  return choose((u == 1.0f) | (x == __builtin_inff()), x, choose(x == -1.0f, all(-__builtin_inff()), y));
}

inline Floats sigmoid_of(Floats x) { return 1.0f / (exp_of(-x) + 1.0f); }
inline Floats softplus_of(Floats x) { return larger(x, Floats{}) + log1p_of(exp_of(-magnitude(x))); }

// Rational approximation on [-7.9, 7.9], as in Eigen; beyond, 1 to the last place.
inline Floats tanh_of(Floats x) {
  const Floats limit = all(7.90531110763549805f);
  const Floats t = choose(x > limit, limit, choose(x < -limit, -limit, x));
  const Floats z = t * t;
  Floats p = all(-2.76076847742355e-16f);
  p = p * z + 2.00018790482477e-13f;
  p = p * z + -8.60467152213735e-11f;
  p = p * z + 5.12229709037114e-08f;
  p = p * z + 1.48572235717979e-05f;
  p = p * z + 6.37261928875436e-04f;
  p = p * z + 4.89352455891786e-03f;
  Floats q = all(1.19825839466702e-06f);
  q = q * z + 1.18534705686654e-04f;
  q = q * z + 2.26843463243900e-03f;
  q = q * z + 4.89352518554385e-03f;
  return choose(magnitude(x) < 0.0004f, x, t * p / q);
}

// Near 0 the Taylor series; else Abramowitz and Stegun's 7.1.26 would be too coarse, so 1 - exp(-x^2) times a rational function, as
// in Cephes' erfcf.
inline Floats erf_of(Floats x) {
  const Floats a = magnitude(x), z = x * x;
  Floats series = all(7.853861353153693e-5f);
  series = series * z + -8.010193625184903e-4f;
  series = series * z + 5.188327685732524e-3f;
  series = series * z + -2.685381193529856e-2f;
  series = series * z + 1.128358514861418e-1f;
  series = series * z + -3.761262582423300e-1f;
  series = series * z + 1.128379165726710e+0f;
  const Floats far = choose(a > 5.0f, all(5.0f), choose(a < 1.0f, all(1.0f), a));
  const Floats q = 1.0f / far, y = q * q;
  Floats near_p = all(2.326819970068386e-2f);  // 1 <= |x| < 2
  near_p = near_p * y + -1.387039388740657e-1f;
  near_p = near_p * y + 3.687424674597105e-1f;
  near_p = near_p * y + -5.824733027278666e-1f;
  near_p = near_p * y + 6.210004621745983e-1f;
  near_p = near_p * y + -4.944515323274145e-1f;
  near_p = near_p * y + 3.404879937665872e-1f;
  near_p = near_p * y + -2.741127028184656e-1f;
  near_p = near_p * y + 5.638259427386472e-1f;
  Floats far_p = all(-1.047766399936249e+1f);  // 2 <= |x|
  far_p = far_p * y + 1.297719955372516e+1f;
  far_p = far_p * y + -7.495518717768503e+0f;
  far_p = far_p * y + 2.921019019210786e+0f;
  far_p = far_p * y + -1.015265279202700e+0f;
  far_p = far_p * y + 4.218463358204948e-1f;
  far_p = far_p * y + -2.820767439740514e-1f;
  far_p = far_p * y + 5.641895067754075e-1f;
  const Floats tail = 1.0f - exp_of(-far * far) * q * choose(far < 2.0f, near_p, far_p);
  const Floats signed_tail = choose(x < 0.0f, -tail, tail);
  return choose(x != x, x, choose(a < 1.0f, x * series, signed_tail));
}

}  // namespace PERIGEE_CPU_NAMESPACE
}  // namespace perigee
