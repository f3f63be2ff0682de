// A thread an element: writes are coalesced, reads of one kernel lie within kh kw rows that the caches hold. Floor: each element read and
// written once; parameters of convolutions are small beside their images.
#include "kernels/cuda/conv_repack.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace perigee {
namespace {

__global__ void __launch_bounds__(kThreads) repack_kernel(Repack call, int64_t elements) {
  begin_kernel();
  const int64_t plane = call.rows * call.columns;
  for (int64_t i = thread_of_grid(); i < elements; i += threads_of_grid()) {
    const int64_t at = i % plane, from = i - at + at % call.rows * call.columns + at / call.rows;
    const float value = load_element<float>(call.from, call.dtype, from);
    store_element<float>(call.to, call.dtype, i, call.accumulate ? load_element<float>(call.to, call.dtype, i) + value : value);
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
  const int64_t elements = call.outer * call.rows * call.columns;
  launches.launch(repack_kernel, blocks_for(elements), kThreads, call, elements);
}

void queue_conv_epilogue(const ConvEpilogue& call, CudaQueue& queue) {
  Launches launches(queue, "conv epilogue");
  launches.launch(conv_epilogue_kernel, blocks_for(call.elements), kThreads, call);
}

}  // namespace perigee
