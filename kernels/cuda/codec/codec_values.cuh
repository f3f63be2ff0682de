// The values of chosen elements, one after another: in fp32 or bf16, or int8 in blocks with a scale each (cluster/codec/value_list.h).
#pragma once

#include "kernels/cuda/codec/codec_common.cuh"

namespace perigee {

constexpr int64_t kValueBlock = 256;

constexpr int64_t value_bytes(CudaValues format, int64_t k) {
  if (format == CudaValues::int8) return k + ceil_divide(k, kValueBlock) * int64_t{sizeof(float)};
  return k * (format == CudaValues::fp32 ? 4 : 2);
}

__device__ inline float value_at(const std::byte* list, CudaValues format, int64_t k, int64_t j) {
  if (format == CudaValues::fp32) return read_bytes<float>(list + 4 * j);
  if (format == CudaValues::bf16) return float_from_bf16(read_bytes<uint16_t>(list + 2 * j));
  const auto code = static_cast<int>(list[value_bytes(format, k) - k + j]);
  return static_cast<float>(code - 127) * read_bytes<float>(list + j / kValueBlock * 4);
}

// Leaves in `values` what was lost of them. Nothing is written when what `call` is about cannot be encoded.
void codec_write_values(Launches& on, const CudaEncodeCall& call, CudaValues format, float* values, int64_t k, std::byte* to);

// Marks them as refused where one is not finite.
void codec_check_values(Launches& on, const std::byte* list, CudaValues format, int64_t k, uint32_t* refused);

}  // namespace perigee
