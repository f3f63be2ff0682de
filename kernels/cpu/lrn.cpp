// Local response normalisation of rows of channels. Each row is padded into scratch memory, so that the windows need no borders and
// the loops vectorise. d^-3/4, the published exponent, takes two square roots instead of a power.
#include "kernels/ops/lrn.h"

#include <cmath>
#include <cstring>

#include "kernels/registry.h"

namespace perigee {
namespace {

struct Sizes {
  int64_t rows, channels, before, after, padded;
  Sizes(const View& x, const LrnParams& p) : channels(x.dims[1]), before(p.size / 2), after(p.size - 1 - p.size / 2) {
    rows = channels == 0 ? 0 : x.elements() / channels;
    padded = channels + p.size;
  }
};

// power[c] = d[c]^-beta
void powers(const float* d, float* power, int64_t n, double beta) {
  if (beta == 0.75) {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) power[c] = 1 / (std::sqrt(d[c]) * std::sqrt(std::sqrt(d[c])));
  } else if (beta == 0.5) {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) power[c] = 1 / std::sqrt(d[c]);
  } else {
    for (int64_t c = 0; c < n; ++c) power[c] = std::pow(d[c], static_cast<float>(-beta));
  }
}

// sums[c] = sum of padded[c .. c + size)
void window_sums(const float* __restrict padded, float* __restrict sums, int64_t n, int64_t size) {
  std::memcpy(sums, padded, static_cast<size_t>(n) * sizeof(float));
  for (int64_t j = 1; j < size; ++j)
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) sums[c] += padded[c + j];
}

// d of a row; `squares` is padded with `before` zeros in front.
void denominators(const float* __restrict x, float* __restrict squares, float* __restrict d, const Sizes& s, const LrnParams& p) {
#pragma omp simd
  for (int64_t c = 0; c < s.channels; ++c) squares[s.before + c] = x[c] * x[c];
  window_sums(squares, d, s.channels, p.size);
  const float k = static_cast<float>(p.k), alpha = static_cast<float>(p.alpha);
#pragma omp simd
  for (int64_t c = 0; c < s.channels; ++c) d[c] = k + alpha * d[c];
}

size_t scratch(const KernelCall& call) {
  const Sizes s(call.in[0], call.as<LrnParams>());
  return static_cast<size_t>(2 * s.padded + 3 * s.channels) * sizeof(float);
}

void forward(const KernelCall& call) {
  const auto& p = call.as<LrnParams>();
  const Sizes s(call.in[0], p);
  auto* squares = static_cast<float*>(call.scratch);
  float *d = squares + 2 * s.padded, *power = d + s.channels;
  std::memset(squares, 0, static_cast<size_t>(s.padded) * sizeof(float));
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* __restrict x = call.in[0].as<float>() + r * s.channels;
    float* __restrict y = call.out[0].as<float>() + r * s.channels;
    denominators(x, squares, d, s, p);
    powers(d, power, s.channels, p.beta);
#pragma omp simd
    for (int64_t c = 0; c < s.channels; ++c) y[c] = x[c] * power[c];
  }
}

void backward(const KernelCall& call) {
  const auto& p = call.as<LrnParams>();
  const Sizes s(call.in[0], p);
  auto* squares = static_cast<float*>(call.scratch);
  float *terms = squares + s.padded, *d = squares + 2 * s.padded, *power = d + s.channels, *sums = power + s.channels;
  std::memset(squares, 0, static_cast<size_t>(2 * s.padded) * sizeof(float));
  const float factor = static_cast<float>(2 * p.alpha * p.beta);
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* __restrict dy = call.in[0].as<float>() + r * s.channels;
    const float* __restrict x = call.in[1].as<float>() + r * s.channels;
    float* __restrict dx = call.out[0].as<float>() + r * s.channels;
    denominators(x, squares, d, s, p);
    powers(d, power, s.channels, p.beta);
    // c lies in the windows of c - after .. c + before: the mirror image of the forward window.
#pragma omp simd
    for (int64_t c = 0; c < s.channels; ++c) terms[s.after + c] = dy[c] * x[c] * power[c] / d[c];
    window_sums(terms, sums, s.channels, p.size);
#pragma omp simd
    for (int64_t c = 0; c < s.channels; ++c) dx[c] = dy[c] * power[c] - factor * x[c] * sums[c];
  }
}

const char* decline(const KernelCall& call) {
  const View& x = call.in[0];
  if (x.dtype != Dtype::f32) return "only f32";
  if (!(x.rank == 2 && x.contiguous()) && !x.channels_last()) return "only channels last, or N x C";
  for (int i = 1; i < call.n_in; ++i)
    if (!same_layout(call.in[i], x)) return "operands in different memory orders";
  return same_layout(call.out[0], x) ? nullptr : "operands in different memory orders";
}

const Kernel kKernels[] = {
    {.op = "lrn",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline,
     .run = forward,
     .scratch_bytes = scratch},
    {.op = "lrn_grad",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline,
     .run = backward,
     .scratch_bytes = scratch},
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(lrn);
const KernelList PERIGEE_CPU_KERNELS(lrn) = kernel_list(kKernels);

}  // namespace perigee
