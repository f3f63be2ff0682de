// Chosen values: for each 4 bytes read, 4 to 1 written and, for what is lost, 4 more.
#include "kernels/cuda/codec/codec_values.cuh"

namespace perigee {
namespace {

__global__ void __launch_bounds__(kThreads)
    write_values_kernel(CudaEncodeCall call, CudaValues format, float* values, int64_t k, std::byte* to) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  for (int64_t j = thread_of_grid(); j < k; j += threads_of_grid()) {
    const float v = values[j];
    if (format == CudaValues::fp32) {
      write_bytes(to + 4 * j, v);
      values[j] = 0;
    } else {
      const uint16_t half = bf16_from_float(v);
      write_bytes(to + 2 * j, half);
      values[j] = v - float_from_bf16(half);
    }
  }
}

}  // namespace

void codec_write_values(Launches& on, const CudaEncodeCall& call, CudaValues format, float* values, int64_t k, std::byte* to) {
  if (format != CudaValues::int8) return on.launch(write_values_kernel, blocks_for(k), kThreads, call, format, values, k, to);
  CudaEncodeCall list = call;
  list.x = values, list.residual = values, list.decay = 0, list.n = k;  // v = x
  codec_write_int8(on, list, kValueBlock, to);
}

void codec_check_values(Launches& on, const std::byte* list, CudaValues format, int64_t k, uint32_t* refused) {
  if (format == CudaValues::int8) return codec_check_scales(on, list, ceil_divide(k, kValueBlock), refused);
  codec_check_finite(on, list, k, format == CudaValues::fp32 ? CudaFloat::fp32 : CudaFloat::bf16, refused);
}

}  // namespace perigee
