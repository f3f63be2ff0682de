// Pooling and local response normalisation of f64 (wide.cuh): a thread for each element of a result. Gradients ask which windows an element
// lies in instead of adding to memory.
#include "kernels/cuda/wide/wide.cuh"
#include "kernels/ops/lrn.h"
#include "kernels/ops/pool.h"

namespace perigee {
namespace {

struct ImageIndex {
  int64_t n, c, row, column;
};

__device__ ImageIndex image_index(const View& image, int64_t i) {
  const int64_t line = i / image.dims[3], plane = line / image.dims[2];
  return {plane / image.dims[1], plane % image.dims[1], line % image.dims[2], i % image.dims[3]};
}

// Where the q-th element of the window at (i, j) lies; false outside the image.
__device__ bool in_window(const PoolParams& p, const View& x, int64_t i, int64_t j, int q, int64_t* row, int64_t* column) {
  *row = i * p.stride[0] - p.padding[0] + int64_t{q / p.kernel[1]} * p.dilation[0];
  *column = j * p.stride[1] - p.padding[2] + int64_t{q % p.kernel[1]} * p.dilation[1];
  return *row >= 0 && *row < x.dims[2] && *column >= 0 && *column < x.dims[3];
}

// The factor of a window's sum.
__device__ __attribute__((noinline)) double scale_of(const PoolParams& p, const View& x, int64_t i, int64_t j) {
  if (p.kind != PoolKind::average) return 1;
  const int all = p.kernel[0] * p.kernel[1];
  int count = all;
  if (!p.count_include_pad) {
    count = 0;
    int64_t row, column;
#pragma unroll 1
    for (int q = 0; q < all; ++q) count += in_window(p, x, i, j, q, &row, &column);
  }
  return count > 0 ? 1.0 / count : 0;
}

__global__ void __launch_bounds__(kThreads) pool_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<PoolParams>();
  const View &x = call.in[0], &y = call.out[0], &argmax = call.out[1];
  for_each_thread(call, [&](int64_t e) {
    const ImageIndex at = image_index(y, e);
    double value = 0;
    int where = -1;
#pragma unroll 1
    for (int q = 0; q < p.kernel[0] * p.kernel[1]; ++q) {
      int64_t row, column;
      if (!in_window(p, x, at.row, at.column, q, &row, &column)) continue;
      const double next = wide_at(x, image_place(x, at.n, at.c, row, column));
      if (p.kind != PoolKind::max) {
        value += p.kind == PoolKind::pnorm ? wide_power(std::fabs(next), p.p) : next;
      } else if (where < 0 || (value == value && (next > value || next != next))) {  // NaN wins, so that it is seen
        value = next, where = q;
      }
    }
    if (p.kind == PoolKind::pnorm) value = wide_power(value, 1 / p.p);
    wide_at(y, image_place(y, at.n, at.c, at.row, at.column)) = value * scale_of(p, x, at.row, at.column);
    if (argmax.data != nullptr) wide_put_index(argmax, image_place(argmax, at.n, at.c, at.row, at.column), where < 0 ? 0 : where);
  });
}

// sign(x) (|x| / y)^(p-1); zero where the whole window is zero.
__device__ double pnorm_slope(double x, double y, double p) {
  if (y == 0 || x == 0) return 0;
  const double slope = wide_power(std::fabs(x) / y, p - 1);
  return x < 0 ? -slope : slope;
}

__global__ void __launch_bounds__(kThreads) pool_grad_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<PoolParams>();
  const View &dy = call.in[0], &x = call.in[1], &y = call.in[2], &dx = call.out[0];  // of max x is argmax
  for_each_thread(call, [&](int64_t e) {
    const ImageIndex at = image_index(dx, e);
    double sum = 0;
#pragma unroll 1
    for (int q = 0; q < p.kernel[0] * p.kernel[1]; ++q) {  // the windows in which the element is the q-th
      const int64_t row = at.row + p.padding[0] - int64_t{q / p.kernel[1]} * p.dilation[0];
      const int64_t column = at.column + p.padding[2] - int64_t{q % p.kernel[1]} * p.dilation[1];
      if (row < 0 || column < 0 || row % p.stride[0] != 0 || column % p.stride[1] != 0) continue;
      const int64_t i = row / p.stride[0], j = column / p.stride[1];
      if (i >= dy.dims[2] || j >= dy.dims[3]) continue;
      if (p.kind == PoolKind::max && wide_index(x, image_place(x, at.n, at.c, i, j)) != q) continue;
      double g = wide_at(dy, image_place(dy, at.n, at.c, i, j)) * scale_of(p, dx, i, j);
      if (p.kind == PoolKind::pnorm)
        g *= pnorm_slope(wide_at(x, image_place(x, at.n, at.c, at.row, at.column)), wide_at(y, image_place(y, at.n, at.c, i, j)), p.p);
      sum += g;
    }
    wide_put(dx, image_place(dx, at.n, at.c, at.row, at.column), sum, call.accumulate);
  });
}

// The channels at one position; of any rank.
struct Channels {
  double* first;
  int64_t stride;
  __device__ Channels(const View& view, int64_t position)
      : first(static_cast<double*>(view.data) + wide_place(view, view.rank, position, 1)), stride(view.strides[1]) {}
  __device__ double& operator[](int64_t c) const { return first[c * stride]; }
};

__device__ __attribute__((noinline)) double denominator(const LrnParams& p, const Channels& x, int64_t channels, int64_t c) {
  double sum = 0;
#pragma unroll 1
  for (int64_t j = max(int64_t{0}, c - p.size / 2); j < min(channels, c - p.size / 2 + p.size); ++j) sum += x[j] * x[j];
  return p.k + p.alpha * sum;
}

__global__ void __launch_bounds__(kThreads) lrn_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<LrnParams>();
  const int64_t channels = call.out[0].dims[1];
  for_each_thread(call, [&](int64_t e) {
    const int64_t position = e / channels, c = e % channels;
    const Channels x(call.in[0], position), y(call.out[0], position);
    y[c] = x[c] * wide_power(denominator(p, x, channels, c), -p.beta);
  });
}

__global__ void __launch_bounds__(kThreads) lrn_grad_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<LrnParams>();
  const int64_t channels = call.out[0].dims[1];
  for_each_thread(call, [&](int64_t e) {
    const int64_t position = e / channels, c = e % channels;
    const Channels dy(call.in[0], position), x(call.in[1], position), dx(call.out[0], position);
    double sum = 0;  // over the windows that c is in
#pragma unroll 1
    for (int64_t j = max(int64_t{0}, c - (p.size - 1 - p.size / 2)); j <= min(channels - 1, c + p.size / 2); ++j)
      sum += dy[j] * x[j] * wide_power(denominator(p, x, channels, j), -p.beta - 1);
    dx[c] = dy[c] * wide_power(denominator(p, x, channels, c), -p.beta) - 2 * p.alpha * p.beta * x[c] * sum;
  });
}

constexpr WideOp kOps[] = {
    {"pool2d", pool_wide, wide_elements, sizeof(PoolParams), false},
    {"pool2d_grad", pool_grad_wide, wide_elements, sizeof(PoolParams), false},
    {"lrn", lrn_wide, wide_elements, sizeof(LrnParams), false},
    {"lrn_grad", lrn_grad_wide, wide_elements, sizeof(LrnParams), false},
};

const Kernel kKernels[] = {wide_kernel<kOps, 0>(), wide_kernel<kOps, 1>(true), wide_kernel<kOps, 2>(), wide_kernel<kOps, 3>()};

}  // namespace

extern const KernelList kernels_cuda_wide_images;
const KernelList kernels_cuda_wide_images = kernel_list(kKernels);

}  // namespace perigee
