// A convolution or one of its adjoints by cuDNN's graph API, for the kernels of conv2d. Plans are built once per shape and kept by the
// queue.
#pragma once

#include "kernels/cuda/runtime/queue.h"
#include "kernels/ops/conv.h"
#include "kernels/view.h"

namespace perigee {

enum class ConvDirection : uint8_t { forward, grad_input, grad_weight };

// Images are [N,C,H,W] and kernels [O,C/G,kh,kw], all channels-last in memory or all not, without gaps.
struct CudnnConv {
  ConvDirection direction = ConvDirection::forward;
  Dtype dtype = Dtype::f32;  // f32, f16 or bf16
  bool channels_last = true;
  int64_t image[4] = {}, kernel[4] = {}, result[4] = {};  // dims of x or dx, w or dw, y or dy
  ConvParams params;                                      // padding that is the same on both sides; relu only of forward
  bool bias = false;                                      // [O]; only of forward
  bool accumulate = false;                                // the result is added to what is there
};

struct CudnnConvData {
  void* image = nullptr;
  void* kernel = nullptr;
  void* result = nullptr;
  void* bias = nullptr;
};

// False when cuDNN has no plan for it within the queue's workspace; nothing was queued then. Other failures are the queue's.
bool queue_cudnn_conv(const CudnnConv& conv, const CudnnConvData& data, CudaQueue& queue, const char* name);

// Whether cuDNN has a plan for a device that need not be here, described by cuDNN's JSON of device properties: for tests. `queue` gives the
// bytes of the workspace and what the plan may do.
bool cudnn_has_plan(const CudnnConv& conv, const char* device, const CudaQueue& queue);

}  // namespace perigee
