// A thread a channel. In double: of a variance far below epsilon little is left in the sum of both.
#include "kernels/cuda/norm/norm_statistics.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {
namespace {

__global__ void __launch_bounds__(kThreads) norm_statistics_kernel(NormStatistics call) {
  begin_kernel();
  for (int64_t c = thread_of_grid(); c < call.channels; c += threads_of_grid()) {
    const double value = static_cast<double>(call.from[c]);
    const double variance = 1 / (value * value) - call.epsilon;
    call.to[c] = static_cast<float>(!call.to_variance ? 1 / std::sqrt(value + call.epsilon) : variance < 0 ? 0.0 : variance);
  }
}

}  // namespace

void queue_norm_statistics(const NormStatistics& call, CudaQueue& queue) {
  Launches launches(queue, "batch norm statistics");
  launches.launch(norm_statistics_kernel, blocks_for(call.channels), kThreads, call);
}

}  // namespace perigee
