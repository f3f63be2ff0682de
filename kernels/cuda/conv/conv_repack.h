// Passes that convolutions by cuDNN need beside it: kernels in channels-last order, and bias and relu where cuDNN cannot do them on the way.
#pragma once

#include "kernels/cuda/runtime/queue.h"
#include "kernels/view.h"

namespace perigee {

inline constexpr int64_t kMostRepacked = int64_t{1} << 30;  // elements, so that 32 bits number them and what a thread takes next

// [outer, rows, columns] becomes [outer, columns, rows]: a kernel [O, C, kh kw] in channels-last order, or back.
struct Repack {
  Dtype dtype = Dtype::f32;  // f32, f16 or bf16
  const void* from = nullptr;
  void* to = nullptr;
  int64_t outer = 0, rows = 0, columns = 0;
  bool accumulate = false;  // to += from
};
void queue_repack(const Repack& call, CudaQueue& queue);

// y = act(y + bias[channel]) in place. The channel of element i is i / inner % channels.
struct ConvEpilogue {
  Dtype dtype = Dtype::f32;
  void* y = nullptr;
  const void* bias = nullptr;  // null: none
  int64_t elements = 0, channels = 0, inner = 0;
  bool relu = false;
};
void queue_conv_epilogue(const ConvEpilogue& call, CudaQueue& queue);

}  // namespace perigee
