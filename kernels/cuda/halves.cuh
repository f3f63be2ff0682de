// Numbers of 16 bits in registers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/half.h"

namespace perigee {

// One instruction each on a device; half.h has the same values, but for which NaN it is.
__device__ inline float float_from_half(uint16_t h, bool bf16) {
  if (bf16) return float_from_bf16(h);
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  return float_from_f16(h);
#endif
}

__device__ inline uint16_t half_from_float(float x, bool bf16) {
#ifdef __CUDA_ARCH__
  uint16_t h;
  if (bf16) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  return bf16 ? bf16_from_float(x) : f16_from_float(x);
#endif
}

// Two, the first in the lower half.
__device__ inline uint32_t halves_from_floats(float low, float high, bool bf16) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if (bf16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return half_from_float(low, bf16) | static_cast<uint32_t>(half_from_float(high, bf16)) << 16;
#endif
}

}  // namespace perigee
