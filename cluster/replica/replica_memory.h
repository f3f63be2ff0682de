// A replica's memory on the GPU that it trains on, beside its trainer's (src/train/device/device_memory.h), known without a GPU: codecs that
// work there, the last result, and what measures of numbers that lie there.
#pragma once

#include "kernels/cuda/runtime/module.h"
#include "src/train/trainer.h"

namespace perigee {

// In bytes, of the job that `trainer` has; 0 for one without "averaging". Error(model) when that cannot be read.
size_t replica_device_bytes(const Trainer& trainer, const CudaModule& module);

}  // namespace perigee
