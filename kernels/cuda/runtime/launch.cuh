// How kernels are launched: `kernel<<<...>>>()` is no C++, and these files are compiled as C++ too (tests/cuda: on the host).
// Shared memory is static, so that a launch is its grid, its block and its arguments.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/counters.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/overlap.h"
#include "kernels/cuda/runtime/queue.h"
#include "kernels/kernel.h"

namespace perigee {

constexpr int kThreads = 256;  // of a block, where nothing speaks for another number

// One launch as CUDA wants it; it overlaps the kernel before where it may. The config points into it.
struct OwnLaunch {
  OwnLaunch(const void* kernel, int64_t blocks, int threads, cudaStream_t stream);
  OwnLaunch(const OwnLaunch&) = delete;
  OwnLaunch& operator=(const OwnLaunch&) = delete;

  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute overlaps = {};
};

// Work in order on one stream. After a failure nothing more is launched; status() is the first one.
class Launches {
 public:
  explicit Launches(cudaStream_t stream) : stream_(stream) {}
  // On a queue, which keeps the first failure and what failed: `name` lasts as long as the module.
  Launches(CudaQueue& queue, const char* name)
      : stream_(static_cast<cudaStream_t>(queue.stream)), status_(static_cast<cudaError_t>(queue.status)), queue_(&queue), name_(name) {}
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  ~Launches() {
    if (queue_ == nullptr || queue_->status != cudaSuccess || status_ == cudaSuccess) return;
    queue_->status = status_;
    queue_->failed = name_;
  }

  // No blocks: no launch.
  template <class... Expected, class... Actual>
  void launch(void (*kernel)(Expected...), int64_t blocks, int threads, Actual... arguments) {
    if (status_ != cudaSuccess || blocks <= 0) return;
    if (blocks > INT32_MAX) return void(status_ = cudaErrorInvalidValue);
    OwnLaunch own(reinterpret_cast<const void*>(kernel), blocks, threads, stream_);
    status_ = cudaLaunchKernelEx(&own.config, kernel, static_cast<Expected>(arguments)...);
    if (status_ == cudaSuccess) launched_own_kernel(stream_);
  }

  void zero(void* memory, size_t bytes) {
    if (status_ != cudaSuccess || bytes == 0) return;
    count_cuda(&CudaCounts::launches);
    status_ = cudaMemsetAsync(memory, 0, bytes, stream_);
  }

  int status() const { return status_; }
  uint32_t* counters() const { return queue_->counters; }  // kCudaCounters of them; zero

 private:
  cudaStream_t stream_;
  cudaError_t status_ = cudaSuccess;
  CudaQueue* queue_ = nullptr;
  const char* name_ = nullptr;
};

// For kernels that compute in f32 and read and write what is stored in 16 bits.
inline const char* decline_unless_f32(const KernelCall& call) {
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].dtype == Dtype::f64) return "only f32, bf16 and f16";
  return nullptr;
}

constexpr int64_t ceil_divide(int64_t n, int64_t by) { return n / by + (n % by != 0); }

// Blocks of kThreads for a loop over n elements, a thread an element: enough to fill the largest device several times over; the threads
// stride over what is beyond.
constexpr int64_t blocks_for(int64_t n) {
  const int64_t blocks = ceil_divide(n, kThreads);
  return blocks < 8192 ? blocks : 8192;
}

}  // namespace perigee
