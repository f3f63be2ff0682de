// Rotary positions: sines and cosines once for each step, then all heads go over them, and all examples that have the same positions.
#include "kernels/ops/rotary.h"

#include <cmath>
#include <cstring>

#include "kernels/registry.h"

namespace perigee {
namespace {

const char* decline(const KernelCall& call) {
  for (const View* v : {&call.in[0], &call.out[0]})
    if (v->dtype != Dtype::f32 || (v->dims[3] != 1 && v->strides[3] != 1)) return "only f32 with contiguous features";
  return nullptr;
}

size_t scratch_bytes(const KernelCall& call) {
  return static_cast<size_t>(call.in[0].dims[1] * call.as<RotaryParams>().width) * sizeof(float);
}

// One head: cosines of all pairs, then their sines.
void turn(const RotaryParams& p, const float* __restrict table, const float* __restrict from, float* __restrict to) {
  const int64_t half = p.width / 2;
  const float *cosine = table, *sine = table + half;
  if (p.interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = from[2 * i], b = from[2 * i + 1];
      to[2 * i] = a * cosine[i] - b * sine[i];
      to[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = from[i], b = from[i + half];
    to[i] = a * cosine[i] - b * sine[i];
    to[i + half] = a * sine[i] + b * cosine[i];
  }
}

void write_table(const RotaryParams& p, int64_t first, int64_t steps, float* table) {
  const int64_t half = p.width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(p.width));
    for (int64_t t = 0; t < steps; ++t) {
      const double angle = static_cast<double>(t + first) * frequency;
      table[t * p.width + i] = static_cast<float>(std::cos(angle));
      table[t * p.width + half + i] = static_cast<float>(p.inverse ? -std::sin(angle) : std::sin(angle));
    }
  }
}

void run(const KernelCall& call) {
  const RotaryParams& p = call.as<RotaryParams>();
  const View &x = call.in[0], &y = call.out[0];
  float* table = static_cast<float*>(call.scratch);
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    if (const int64_t first = first_position(call, p, n); n == 0 || first != first_position(call, p, n - 1))
      write_table(p, first, x.dims[1], table);
    for (int64_t t = 0; t < x.dims[1]; ++t)
      for (int64_t h = 0; h < x.dims[2]; ++h) {
        const float* from = x.as<float>() + n * x.strides[0] + t * x.strides[1] + h * x.strides[2];
        float* to = y.as<float>() + n * y.strides[0] + t * y.strides[1] + h * y.strides[2];
        const int64_t width = h < p.heads ? p.width : 0;
        if (width > 0) turn(p, table + t * p.width, from, to);
        if (width < x.dims[3]) std::memcpy(to + width, from + width, static_cast<size_t>(x.dims[3] - width) * sizeof(float));
      }
  }
}

const Kernel kKernels[] = {{.op = "rotary",
                            .name = "rows",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run,
                            .scratch_bytes = scratch_bytes}};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(rotary);
const KernelList PERIGEE_CPU_KERNELS(rotary) = kernel_list(kKernels);

}  // namespace perigee
