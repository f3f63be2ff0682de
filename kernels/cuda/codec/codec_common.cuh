// Shared by the files of the codecs.
#pragma once

#include "kernels/cuda/codec/codec.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {

__device__ inline uint32_t magnitude_bits(float x) { return bits_from_float(x) & 0x7fffffffu; }

// The value to encode. Without feedback `residual` is null.
__device__ inline float codec_folded(const CudaEncodeCall& call, int64_t i) {
  return call.residual ? call.x[i] + call.decay * call.residual[i] : call.x[i];
}

__device__ inline bool codec_encodable(const CudaEncodeCall& call) { return call.encoded->largest <= call.limit; }

// Writes the encoder's report; the largest magnitude is already there.
__device__ inline void codec_record(const CudaEncodeCall& call, const CudaEncoded& record) {
  call.encoded->bytes = record.bytes, call.encoded->variant = record.variant, call.encoded->detail = record.detail;
}

// First of all: clears the record and finds the largest magnitude, by which every other kernel knows whether to work at all.
void codec_begin(Launches& on, const CudaEncodeCall& call);

// Marks a list of floats of that kind as refused where one is not finite; `in` need not be aligned.
void codec_check_finite(Launches& on, const std::byte* in, int64_t n, CudaFloat format, uint32_t* refused);
// ... where a scale is none that an encoder writes.
void codec_check_scales(Launches& on, const std::byte* in, int64_t n, uint32_t* refused);

// n values as int8 in blocks with a scale each: the scales, then the codes. Of the call it takes the values, the residual and the record
// that says whether to work.
void codec_write_int8(Launches& on, const CudaEncodeCall& call, int64_t block, std::byte* to);

// The body is codes of 2 bits that share one scale: refuses a code that stands for nothing, or adds them.
void codec_add_codes2(Launches& on, const CudaDecodeCall& call, int64_t block, float scale);

// residual = x + decay * residual, where there is a residual.
void codec_fold(Launches& on, const CudaEncodeCall& call);

}  // namespace perigee
