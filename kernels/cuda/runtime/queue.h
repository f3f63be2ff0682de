// Where the work of CUDA kernels goes. No CUDA header is needed to include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perigee {

// Counters of a queue. A kernel uses them from the first on, and leaves them zero (last_block.cuh).
inline constexpr int64_t kCudaCounters = 1024;

struct CudaLibraries;  // cuBLASLt, cuDNN, NVRTC as far as this machine has them; of the module

// One stream of one device and what kernels need to queue work on it. One thread uses it at a time. After the first failure nothing more is
// queued.
struct CudaQueue {
  void* stream = nullptr;  // cudaStream_t
  int device = 0;
  int status = 0;                // cudaError_t of the first failure
  const char* failed = nullptr;  // the kernel that it came from, by name
  CudaLibraries* libraries = nullptr;
  void* workspace = nullptr;  // of the device, for libraries: what one call leaves there the next may overwrite
  size_t workspace_bytes = 0;
  uint32_t* counters = nullptr;  // kCudaCounters of the device, of this stream alone: what runs beside it has others
  bool tf32 = false;             // libraries may round f32 operands of products to tf32
  bool deterministic = false;    // libraries choose among algorithms that give the same bits each time
  // Libraries know several algorithms for a call, the best by their own judgement first. A kernel takes number `algorithm`, or the last of
  // those that fit; `taken` holds the largest use since it was last set to 0.
  int algorithm = 0, taken = 0;
};

// `status` when a library refused; `failed` says which and what it said. It is cudaErrorUnknown.
inline constexpr int kLibraryFailed = 999;

}  // namespace perigee
