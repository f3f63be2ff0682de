// Pooling and its gradient: a thread makes one element of the result, in its order in memory, so that with channels last neighbouring
// threads read neighbouring elements of every window; 16 bytes a thread where channels lie last (pool_vectors.cuh). The gradient asks which
// windows an element lies in instead of adding to memory, so that sums have one order. Each image is read once from memory: windows that
// overlap meet in the caches.
#include "kernels/ops/pool.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/pool/pool_vectors.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// An image N,C,H,W.
struct Image {
  Elements of;
  int64_t dims[4], strides[4];

  Image() = default;
  explicit Image(const View& view) : of(view) {
    for (int d = 0; d < 4; ++d) dims[d] = view.dims[d], strides[d] = view.strides[d];
  }
  __device__ int64_t offset(const int64_t (&at)[4], int64_t row, int64_t column) const {
    return at[0] * strides[0] + at[1] * strides[1] + row * strides[2] + column * strides[3];
  }
};

struct PoolCall {
  PoolParams params;
  Image small, large, argmax, x;  // y or dy; x or dx; of the gradient of pnorm: y is `argmax`
  Walk<4> places;                 // of the result's elements: n, c, row, column
  bool accumulate;
};

struct Window {
  int64_t row, column;
  bool inside;
};

__device__ Window window_at(const PoolParams& p, const Image& large, int64_t i, int64_t j, int q) {
  const int64_t row = i * p.stride[0] - p.padding[0] + int64_t{q / p.kernel[1]} * p.dilation[0];
  const int64_t column = j * p.stride[1] - p.padding[2] + int64_t{q % p.kernel[1]} * p.dilation[1];
  return {row, column, row >= 0 && row < large.dims[2] && column >= 0 && column < large.dims[3]};
}

__device__ __attribute__((noinline)) float power(float x, float p) { return powf(x, p); }

// The factor of a window's sum.
__device__ __attribute__((noinline)) float scale_of(const PoolParams& p, const Image& large, int64_t i, int64_t j) {
  if (p.kind != PoolKind::average) return 1;
  int count = p.kernel[0] * p.kernel[1];
  if (!p.count_include_pad) {
    count = 0;
#pragma unroll 1
    for (int q = 0; q < p.kernel[0] * p.kernel[1]; ++q) count += window_at(p, large, i, j, q).inside;
  }
  return count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
}

__global__ void __launch_bounds__(kThreads) pool_kernel(const __grid_constant__ PoolCall call) {
  begin_kernel();
  const PoolParams& p = call.params;
#pragma unroll 1
  for (int64_t e = thread_of_grid(); e < call.places.n; e += threads_of_grid()) {
    int64_t at[4];
    locate(call.places, e, at);
    float value = 0;
    int where = -1;
#pragma unroll 1
    for (int q = 0; q < p.kernel[0] * p.kernel[1]; ++q) {
      const Window window = window_at(p, call.large, at[2], at[3], q);
      if (!window.inside) continue;
      const float x = call.large.of.load<float>(call.large.offset(at, window.row, window.column));
      if (p.kind == PoolKind::max) {
        if (where >= 0 && (value != value || (!(x > value) && x == x))) continue;  // NaN wins, so that it is seen
        value = x, where = q;
      } else {
        value += p.kind == PoolKind::pnorm ? power(fabsf(x), static_cast<float>(p.p)) : x;
      }
    }
    if (p.kind == PoolKind::pnorm) value = power(value, static_cast<float>(1 / p.p));
    if (p.kind == PoolKind::average) value *= scale_of(p, call.large, at[2], at[3]);
    call.small.of.store<float>(call.small.offset(at, at[2], at[3]), value);
    if (call.argmax.of.data != nullptr) call.argmax.of.store<int64_t>(call.argmax.offset(at, at[2], at[3]), where < 0 ? 0 : where);
  }
}

// dy/dx of one element: sign(x) (|x| / y)^(p-1); zero where the whole window is zero.
__device__ float pnorm_slope(float x, float y, float p) {
  if (y == 0 || x == 0) return 0;
  const float slope = power(fabsf(x) / y, p - 1);
  return x < 0 ? -slope : slope;
}

// The gradient that the window at (i, j) gives to its q-th element, which is the one at `at`.
__device__ float gradient_of(const PoolCall& call, const int64_t (&at)[4], int64_t i, int64_t j, int q) {
  const PoolParams& p = call.params;
  const int64_t there = call.argmax.offset(at, i, j);
  if (p.kind == PoolKind::max && call.argmax.of.load<int64_t>(there) != q) return 0;
  const float g = call.small.of.load<float>(call.small.offset(at, i, j)) * scale_of(p, call.large, i, j);
  if (p.kind != PoolKind::pnorm) return g;
  return g *
         pnorm_slope(call.x.of.load<float>(call.x.offset(at, at[2], at[3])), call.argmax.of.load<float>(there), static_cast<float>(p.p));
}

// The windows along one dimension that reach over place `at`, which counts from the padding's edge.
struct Range {
  int at, first, last;
};

__device__ Range windows_over(const PoolParams& p, const Image& small, int dimension, int at) {
  const int stride = p.stride[dimension], reach = (p.kernel[dimension] - 1) * p.dilation[dimension];
  return {at, at > reach ? (at - reach + stride - 1) / stride : 0, min(at / stride, static_cast<int>(small.dims[2 + dimension]) - 1)};
}

__global__ void __launch_bounds__(kThreads) pool_grad_kernel(const __grid_constant__ PoolCall call) {
  begin_kernel();
  const PoolParams& p = call.params;
#pragma unroll 1
  for (int64_t e = thread_of_grid(); e < call.places.n; e += threads_of_grid()) {
    int64_t at[4];
    locate(call.places, e, at);
    float sum = 0;
    const Range down = windows_over(p, call.small, 0, static_cast<int>(at[2]) + p.padding[0]),
                right = windows_over(p, call.small, 1, static_cast<int>(at[3]) + p.padding[2]);
#pragma unroll 1
    for (int i = down.last; i >= down.first; --i) {  // so that the element is a later one of each window, as in the reference
      const int row = down.at - i * p.stride[0];
      if (p.dilation[0] > 1 && row % p.dilation[0] != 0) continue;
#pragma unroll 1
      for (int j = right.last; j >= right.first; --j) {
        const int column = right.at - j * p.stride[1];
        if (p.dilation[1] > 1 && column % p.dilation[1] != 0) continue;
        sum += gradient_of(call, at, i, j, row / p.dilation[0] * p.kernel[1] + column / p.dilation[1]);
      }
    }
    call.large.of.put<float>(call.large.offset(at, at[2], at[3]), sum, call.accumulate);
  }
}

void pool2d(const KernelCall& call) {
  Launches on(*call.queue, "pool2d");
  const View argmax = call.n_out > 1 ? call.out[1] : View();
  PoolVectors vectors;
  if (pool_vectors(call.as<PoolParams>(), call.in[0], call.out[0], argmax, &vectors)) {
    vectors.chosen = argmax.data;
    return on.launch(pool_vectors_kernel, blocks_for(vectors.n), kThreads, vectors);
  }
  PoolCall all{.params = call.as<PoolParams>(),
               .small = Image(call.out[0]),
               .large = Image(call.in[0]),
               .places = make_coordinate_walk(call.out[0])};
  if (argmax.data != nullptr) all.argmax = Image(argmax);
  on.launch(pool_kernel, blocks_for(all.places.n), kThreads, all);
}

void pool2d_grad(const KernelCall& call) {
  Launches on(*call.queue, "pool2d_grad");
  const auto& params = call.as<PoolParams>();
  const View argmax = params.kind == PoolKind::max ? call.in[1] : View();
  PoolVectors vectors;
  if (pool_vectors(params, call.in[0], call.out[0], argmax, &vectors)) {
    vectors.argmax = argmax.data, vectors.accumulate = call.accumulate;
    return on.launch(pool_grad_vectors_kernel, blocks_for(vectors.n), kThreads, vectors);
  }
  PoolCall all{.params = params,
               .small = Image(call.in[0]),
               .large = Image(call.out[0]),
               .places = make_coordinate_walk(call.out[0]),
               .accumulate = call.accumulate};
  if (params.kind == PoolKind::max) all.argmax = Image(argmax);
  if (params.kind == PoolKind::pnorm) all.x = Image(call.in[1]), all.argmax = Image(call.in[2]);
  on.launch(pool_grad_kernel, blocks_for(all.places.n), kThreads, all);
}

const Kernel kKernels[] = {
    {.op = "pool2d", .name = "pool", .backend = Backend::cuda, .decline = decline_unless_f32, .run = pool2d},
    {.op = "pool2d_grad", .name = "pool", .backend = Backend::cuda, .decline = decline_unless_f32, .run = pool2d_grad, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_pool;
const KernelList kernels_cuda_pool = kernel_list(kKernels);

}  // namespace perigee
