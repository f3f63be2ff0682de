// A thread an element: writes are coalesced, reads of one kernel lie within kh kw rows that the caches hold. Floor: each element read and
// written once; parameters of convolutions are small beside their images. A convolution waits for its own, so that what counts is how few
// instructions it has: 20 an element in sm_90's code.
#include "kernels/cuda/conv/conv_repack.h"

#include <cassert>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {
namespace {

// `plane`: rows times columns.
__global__ void __launch_bounds__(kThreads) repack_kernel(Repack call, Divisor plane, Divisor rows, int32_t elements) {
  begin_kernel();
#pragma unroll 1
  for (auto i = static_cast<int32_t>(thread_of_grid()); i < elements; i += static_cast<int32_t>(threads_of_grid())) {
    auto rest = static_cast<uint32_t>(i);
    const int at = plane.take(rest);
    auto column = static_cast<uint32_t>(at);
    const int row = rows.take(column), from = i - at + row * static_cast<int>(call.columns) + static_cast<int>(column);
    if (call.accumulate)
      store_element<float>(call.to, call.dtype, i,
                           load_element<float>(call.to, call.dtype, i) + load_element<float>(call.from, call.dtype, from));
    else if (call.dtype == Dtype::f32) static_cast<uint32_t*>(call.to)[i] = static_cast<const uint32_t*>(call.from)[from];
    else static_cast<uint16_t*>(call.to)[i] = static_cast<const uint16_t*>(call.from)[from];
  }
}

__global__ void __launch_bounds__(kThreads) conv_epilogue_kernel(ConvEpilogue call) {
  begin_kernel();
  for (int64_t i = thread_of_grid(); i < call.elements; i += threads_of_grid()) {
    float value = load_element<float>(call.y, call.dtype, i);
    if (call.bias != nullptr) value += load_element<float>(call.bias, call.dtype, i / call.inner % call.channels);
    store_element<float>(call.y, call.dtype, i, call.relu && value < 0 ? 0 : value);
  }
}

}  // namespace

void queue_repack(const Repack& call, CudaQueue& queue) {
  Launches launches(queue, "conv repack");
  const int64_t plane = call.rows * call.columns, elements = call.outer * plane;
  assert(elements <= kMostRepacked);
  if (elements == 0) return;
  launches.launch(repack_kernel, blocks_for(elements), kThreads, call, Divisor(plane), Divisor(call.rows), static_cast<int32_t>(elements));
}

void queue_conv_epilogue(const ConvEpilogue& call, CudaQueue& queue) {
  Launches launches(queue, "conv epilogue");
  launches.launch(conv_epilogue_kernel, blocks_for(call.elements), kThreads, call);
}

}  // namespace perigee
