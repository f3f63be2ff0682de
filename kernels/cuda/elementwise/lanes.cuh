// Numbers of an operand 16 bytes at a time: eight of 16 bits or four of f32, so that one kernel serves all three dtypes. Read first all
// that is wanted, as it lies, and make numbers of it then: the branch on the dtype waits for what it takes apart, and a read behind it
// would begin only when the one before had come.
#pragma once

#include "kernels/cuda/halves.cuh"
#include "kernels/view.h"

namespace perigee {

constexpr int kLanes = 8;  // at most; lanes beyond those of the dtype are zero and unused

constexpr bool has_lanes(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::f16; }
constexpr int lanes_of(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 8; }

__device__ inline uint4 load_vector(const void* from, int64_t i) { return static_cast<const uint4*>(from)[i]; }
__device__ inline void store_vector(void* to, int64_t i, const uint4& vector) { static_cast<uint4*>(to)[i] = vector; }

__device__ inline void unpack(const uint4& vector, Dtype dtype, float (&x)[kLanes]) {
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  if (dtype == Dtype::f32)
    for (int w = 0; w < 4; ++w) x[w] = float_from_bits(words[w]), x[4 + w] = 0;
  else if (dtype == Dtype::bf16)
    for (int w = 0; w < 4; ++w) x[2 * w] = float_from_bits(words[w] << 16), x[2 * w + 1] = float_from_bits(words[w] & 0xffff0000u);
  else
    for (int l = 0; l < kLanes; ++l) x[l] = float_from_half(static_cast<uint16_t>(words[l / 2] >> 16 * (l % 2)), false);
}

__device__ inline uint4 packed(const float (&x)[kLanes], Dtype dtype) {
  if (dtype == Dtype::f32) return {bits_from_float(x[0]), bits_from_float(x[1]), bits_from_float(x[2]), bits_from_float(x[3])};
  const auto pair = [&](int l) { return halves_from_floats(x[l], x[l + 1], dtype == Dtype::bf16); };
  return {pair(0), pair(2), pair(4), pair(6)};
}

}  // namespace perigee
