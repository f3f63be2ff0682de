// Batch normalisation by cuDNN's graph API, for the kernels of batch_norm: one kernel of cuDNN's, whose blocks wait for each other, does
// what takes ours two passes and a sum between them.
#pragma once

#include "kernels/cuda/runtime/queue.h"
#include "kernels/view.h"

namespace perigee {

// y = act(gamma (x - mean) inverse + beta + residual), or its gradients. Images with channels last; what belongs to channels is f32.
struct CudnnNorm {
  bool backward = false;
  Dtype dtype = Dtype::f32;  // of images: f32, f16 or bf16
  int64_t image[4] = {};     // N, C, H, W
  bool relu = false;
  bool residual = false;      // forward: it is added; backward: relu's mask comes of y, else of x, gamma and beta
  bool keeps_masked = false;  // backward, with `residual`: dy where relu let it through is a result too
};

struct CudnnNormData {
  const void *x = nullptr, *residual = nullptr;
  const void *gamma = nullptr, *beta = nullptr;  // beta: not of backward, unless relu's mask comes of x
  void *mean = nullptr, *inverse = nullptr;      // [C]: results of forward; inverse is 1 / sqrt(variance + epsilon)
  void* y = nullptr;
  const void* dy = nullptr;
  void *dx = nullptr, *masked = nullptr, *dgamma = nullptr, *dbeta = nullptr;
  float epsilon = 0;
};

// False when cuDNN has no plan for it within the queue's workspace; nothing was queued then. Other failures are the queue's.
bool queue_cudnn_norm(const CudnnNorm& norm, const CudnnNormData& data, CudaQueue& queue, const char* name);

bool cudnn_has_plan(const CudnnNorm& norm, const char* device, const CudaQueue& queue);  // as that of cudnn_plans.cuh

}  // namespace perigee
