// Layer normalisation of contiguous rows. A row is in L1 after its first reading, so mean, deviation and result take three passes
// over it without leaving the cache.
#include "kernels/ops/layer_norm.h"

#include <cmath>

#include "kernels/registry.h"

namespace perigee {
namespace {

struct Sizes {
  int64_t rows, k;
  explicit Sizes(const View& x) : k(x.dims[x.rank - 1]) { rows = k == 0 ? 0 : x.elements() / k; }
};

void forward(const KernelCall& call) {
  const Sizes s(call.in[0]);
  const float* gamma = call.n_in > 1 ? call.in[1].as<float>() : nullptr;
  const float* beta = call.n_in > 2 ? call.in[2].as<float>() : nullptr;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* __restrict x = call.in[0].as<float>() + r * s.k;
    float* __restrict y = call.out[0].as<float>() + r * s.k;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s.k; ++i) sum += x[i];
    const float mean = call.as<LayerNormParams>().centre ? sum / static_cast<float>(s.k) : 0.0f;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < s.k; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1 / std::sqrt(squares / static_cast<float>(s.k) + static_cast<float>(call.as<LayerNormParams>().epsilon));
    if (gamma != nullptr && beta != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < s.k; ++i) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    } else {
      for (int64_t i = 0; i < s.k; ++i)
        y[i] = (x[i] - mean) * inverse * (gamma != nullptr ? gamma[i] : 1.0f) + (beta != nullptr ? beta[i] : 0.0f);
    }
    call.out[1].as<float>()[r] = mean;
    call.out[2].as<float>()[r] = inverse;
  }
}

void backward(const KernelCall& call) {
  const Sizes s(call.in[1]);
  const float* gamma = call.in[2].as<float>();
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* __restrict dy = call.in[0].as<float>() + r * s.k;
    const float* __restrict x = call.in[1].as<float>() + r * s.k;
    float* __restrict dx = call.out[0].as<float>() + r * s.k;
    const float mean = call.in[3].as<float>()[r], inverse = call.in[4].as<float>()[r];
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = 0; i < s.k; ++i) {
      const float g = gamma != nullptr ? dy[i] * gamma[i] : dy[i];
      sum += g;
      product += g * (x[i] - mean);
    }
    const float offset = call.as<LayerNormParams>().centre ? -sum / static_cast<float>(s.k) * inverse : 0.0f;
    const float slope = -product * inverse * inverse / static_cast<float>(s.k) * inverse;
#pragma omp simd
    for (int64_t i = 0; i < s.k; ++i) {
      const float g = gamma != nullptr ? dy[i] * gamma[i] : dy[i];
      dx[i] = inverse * g + (slope * (x[i] - mean) + offset);
    }
  }
}

void params(const KernelCall& call) {
  const Sizes s(call.in[1]);
  float* __restrict dgamma = call.out[0].as<float>();
  float* __restrict dbeta = call.out[1].as<float>();
  for (int64_t i = 0; i < s.k && !call.accumulate; ++i) dgamma[i] = dbeta[i] = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* __restrict dy = call.in[0].as<float>() + r * s.k;
    const float* __restrict x = call.in[1].as<float>() + r * s.k;
    const float mean = call.in[2].as<float>()[r], inverse = call.in[3].as<float>()[r];
#pragma omp simd
    for (int64_t i = 0; i < s.k; ++i) {
      dgamma[i] += dy[i] * (x[i] - mean) * inverse;
      dbeta[i] += dy[i];
    }
  }
}

const char* decline(const KernelCall& call) {
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && (call.in[i].dtype != Dtype::f32 || !call.in[i].contiguous())) return "only contiguous f32";
  for (int i = 0; i < call.n_out; ++i)
    if (!call.out[i].contiguous()) return "only contiguous f32";
  return nullptr;
}

const Kernel kKernels[] = {
    {.op = "layer_norm", .name = "rows", .backend = Backend::cpu, .isa = Isa::PERIGEE_ISA, .decline = decline, .run = forward},
    {.op = "layer_norm_grad", .name = "rows", .backend = Backend::cpu, .isa = Isa::PERIGEE_ISA, .decline = decline, .run = backward},
    {.op = "layer_norm_grad_params",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline,
     .run = params,
     .accumulates = true},
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(layer_norm);
const KernelList PERIGEE_CPU_KERNELS(layer_norm) = kernel_list(kKernels);

}  // namespace perigee
