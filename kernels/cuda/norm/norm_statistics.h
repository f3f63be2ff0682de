// Between the variance that batch_norm's contract has and what cuDNN reads and writes, 1 / sqrt(variance + epsilon).
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/queue.h"

namespace perigee {

struct NormStatistics {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t channels = 0;
  double epsilon = 0;
  bool to_variance = false;
};
void queue_norm_statistics(const NormStatistics& call, CudaQueue& queue);

}  // namespace perigee
