// Matrix products, dense layers and convolutions of f64, with and without pooling, and their gradients (wide.cuh): a thread for each
// element of a result, a warp for each of what is summed over the batch.
#include "kernels/cuda/wide/wide.cuh"
#include "kernels/ops/conv.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"

namespace perigee {
namespace {

// Where the matrix of batch i lies, whose dimensions are broadcast to the result's.
__device__ int64_t batch_place(const View& view, const View& result, int64_t i) {
  int64_t place = 0;
#pragma unroll 1
  for (int d = result.rank - 3; d >= 0; --d) {
    const int own = d - result.rank + view.rank;
    if (own >= 0 && view.dims[own] != 1) place += i % result.dims[d] * view.strides[own];
    i /= result.dims[d];
  }
  return place;
}

__global__ void __launch_bounds__(kThreads) matmul_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<MatmulParams>();
  const View &a = call.in[0], &b = call.in[1], &c = call.out[0];
  const int a_depth = a.rank - (p.transpose_a ? 2 : 1), b_depth = b.rank - (p.transpose_b ? 1 : 2);
  const int a_row = 2 * a.rank - 3 - a_depth, b_column = 2 * b.rank - 3 - b_depth;
  const int64_t rows = c.dims[c.rank - 2], columns = c.dims[c.rank - 1];
  for_each_thread(call, [&](int64_t i) {
    const int64_t line = i / columns, column = i % columns, batch = line / rows, row = line % rows;
    const int64_t left = batch_place(a, c, batch) + row * a.strides[a_row], right = batch_place(b, c, batch) + column * b.strides[b_column];
    double sum = 0;
#pragma unroll 1
    for (int64_t k = 0; k < a.dims[a_depth]; ++k)
      sum += wide_at(a, left + k * a.strides[a_depth]) * wide_at(b, right + k * b.strides[b_depth]);
    wide_put(c, wide_place(c, c.rank, i, -1), sum, call.accumulate);
  });
}

__device__ int64_t rows_of(const View& view) {
  int64_t n = 1;
  for (int d = 0; d < view.rank - 1; ++d) n *= view.dims[d];
  return n;
}

// Element (row, column) of rows that may be several dimensions.
__device__ int64_t row_place(const View& view, int64_t row, int64_t column) {
  return wide_place(view, view.rank - 1, row, -1) + column * view.strides[view.rank - 1];
}

__global__ void __launch_bounds__(kThreads) linear_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0], &z = call.out[1];
  for_each_thread(call, [&](int64_t i) {
    const int64_t columns = y.dims[y.rank - 1], row = i / columns, column = i % columns, from = row_place(x, row, 0);
    double sum = 0;
#pragma unroll 1
    for (int64_t k = 0; k < w.dims[1]; ++k)
      sum += wide_at(x, from + k * x.strides[x.rank - 1]) * wide_at(w, column * w.strides[0] + k * w.strides[1]);
    sum += wide_or(call.in[2], column, 0);
    if (z.data != nullptr) wide_put(z, row_place(z, row, column), sum, call.accumulate);
    const LinearActivation activation = call.as<LinearParams>().activation;
    if (activation == LinearActivation::gelu_tanh) sum = gelu_value<double>(sum, tanh(gelu_argument(sum)));
    if (activation == LinearActivation::relu && sum < 0) sum = 0;
    wide_put(y, row_place(y, row, column), sum, call.accumulate);
  });
}

__global__ void __launch_bounds__(kThreads) linear_grad_input_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const View &dz = call.in[0], &w = call.in[1], &kept = call.in[2], &dx = call.out[0];
  for_each_thread(call, [&](int64_t i) {
    const int64_t columns = dx.dims[dx.rank - 1], row = i / columns, column = i % columns;
    double sum = 0;
#pragma unroll 1
    for (int64_t n = 0; n < w.dims[0]; ++n)
      sum += wide_at(dz, row_place(dz, row, n)) * wide_at(w, n * w.strides[0] + column * w.strides[1]);
    if (kept.data != nullptr) {
      const double by = wide_at(kept, row_place(kept, row, column));
      if (call.as<LinearParams>().activation == LinearActivation::gelu_tanh) sum *= gelu_slope<double>(by, tanh(gelu_argument(by)));
      else if (!(by > 0)) sum = 0;
    }
    wide_put(dx, row_place(dx, row, column), sum, call.accumulate);
  });
}

// The weights, then the biases.
__global__ void __launch_bounds__(kThreads) linear_grad_weight_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const View &dz = call.in[0], &x = call.in[1], &dw = call.out[0], &db = call.out[1];
  const int64_t inputs = dw.dims[1], n = blockIdx.x / inputs, k = blockIdx.x % inputs;
  const bool bias = n >= dw.dims[0];
  const int64_t output = bias ? blockIdx.x - dw.dims[0] * inputs : n;
  double sum = 0;
  for_each_of_warp(rows_of(x),
                   [&](int64_t row) { sum += wide_at(dz, row_place(dz, row, output)) * (bias ? 1 : wide_at(x, row_place(x, row, k))); });
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  if (bias) wide_put(db, output * db.strides[0], sum, call.accumulate);
  else wide_put(dw, output * dw.strides[0] + k * dw.strides[1], sum, call.accumulate);
}

int64_t weights_and_biases(const KernelCall& call) {
  return call.out[0].elements() + (call.n_out > 1 && call.out[1].data != nullptr ? call.out[1].elements() : 0);
}

struct ImageIndex {
  int64_t n, c;
  int row, column;
};

// Element i of an image, row-major.
__device__ ImageIndex image_index(const View& image, int64_t i) {
  const int64_t column = i % image.dims[3], line = i / image.dims[3], row = line % image.dims[2], plane = line / image.dims[2];
  return {plane / image.dims[1], plane % image.dims[1], static_cast<int>(row), static_cast<int>(column)};
}

// Calls f(row of x, column of x, row and column of the kernel) for what lies in the image under the window at (i, j).
template <class F>
__device__ void for_window(const ConvParams& p, const View& x, const View& w, int i, int j, F f) {
#pragma unroll 1
  for (int q = 0; q < static_cast<int>(w.dims[2] * w.dims[3]); ++q) {
    const int kr = q / static_cast<int>(w.dims[3]), kc = q % static_cast<int>(w.dims[3]);
    const int row = i * p.stride[0] - p.padding[0] + kr * p.dilation[0], column = j * p.stride[1] - p.padding[2] + kc * p.dilation[1];
    if (row >= 0 && row < x.dims[2] && column >= 0 && column < x.dims[3]) f(row, column, kr, kc);
  }
}

template <bool kPooled>
__device__ void conv_forward(const WideCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  for_each_thread(call, [&](int64_t e) {
    const ImageIndex at = image_index(y, e);
    const int64_t first = at.c / (w.dims[0] / p.groups) * w.dims[1];
    const int windows = kPooled ? p.pool[0] * p.pool[1] : 1;
    double best = 0;
    int where = -1;
#pragma unroll 1
    for (int q = 0; q < windows; ++q) {
      const int i = kPooled ? at.row * p.pool[0] + q / p.pool[1] : at.row, j = kPooled ? at.column * p.pool[1] + q % p.pool[1] : at.column;
      double sum = 0;
      for_window(p, x, w, i, j, [&](int row, int column, int kr, int kc) {
#pragma unroll 1
        for (int64_t k = 0; k < w.dims[1]; ++k)
          sum += wide_at(x, image_place(x, at.n, first + k, row, column)) * wide_at(w, image_place(w, at.c, k, kr, kc));
      });
      if (where >= 0 && (best != best || (!(sum > best) && sum == sum))) continue;  // the first of the largest; NaN wins
      best = sum, where = q;
    }
    best += wide_or(call.in[2], at.c, 0);
    wide_at(y, image_place(y, at.n, at.c, at.row, at.column)) = p.relu && best < 0 ? 0 : best;
    if (kPooled) wide_put_index(call.out[1], image_place(call.out[1], at.n, at.c, at.row, at.column), where);
  });
}

__global__ void __launch_bounds__(kThreads) conv_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  conv_forward<false>(call);
}
__global__ void __launch_bounds__(kThreads) conv_pool_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  conv_forward<true>(call);
}

// The gradient of the convolution's own result at (n, o, i, j), of which only the largest of a window has one.
template <bool kPooled>
__device__ double conv_gradient(const WideCall& call, int64_t n, int64_t o, int i, int j) {
  const auto& p = call.as<ConvParams>();
  const View &dy = call.in[0], &y = call.in[1], &argmax = call.in[2];
  if (!kPooled) return i < dy.dims[2] && j < dy.dims[3] ? wide_at(dy, image_place(dy, n, o, i, j)) : 0;
  const int row = i / p.pool[0], column = j / p.pool[1];
  if (row >= dy.dims[2] || column >= dy.dims[3]) return 0;
  const int q = (i - row * p.pool[0]) * p.pool[1] + j - column * p.pool[1];
  const bool chosen = wide_index(argmax, image_place(argmax, n, o, row, column)) == q;
  const bool alive = !p.relu || wide_at(y, image_place(y, n, o, row, column)) > 0;
  return chosen && alive ? wide_at(dy, image_place(dy, n, o, row, column)) : 0;
}

template <bool kPooled>
__device__ void conv_grad_input(const WideCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &w = call.in[kPooled ? 3 : 1], &dx = call.out[0];
  for_each_thread(call, [&](int64_t e) {
    const ImageIndex at = image_index(dx, e);
    const int64_t outputs = w.dims[0] / p.groups, group = at.c / w.dims[1], channel = at.c - group * w.dims[1];
    double sum = 0;
#pragma unroll 1
    for (int q = 0; q < static_cast<int>(w.dims[2] * w.dims[3]); ++q) {
      const int kr = q / static_cast<int>(w.dims[3]), kc = q % static_cast<int>(w.dims[3]);
      const int row = at.row + p.padding[0] - kr * p.dilation[0], column = at.column + p.padding[2] - kc * p.dilation[1];
      if (row < 0 || column < 0 || row % p.stride[0] != 0 || column % p.stride[1] != 0) continue;
#pragma unroll 1
      for (int64_t o = group * outputs; o < (group + 1) * outputs; ++o)
        sum +=
            conv_gradient<kPooled>(call, at.n, o, row / p.stride[0], column / p.stride[1]) * wide_at(w, image_place(w, o, channel, kr, kc));
    }
    wide_put(dx, image_place(dx, at.n, at.c, at.row, at.column), sum, call.accumulate);
  });
}

__global__ void __launch_bounds__(kThreads) conv_grad_input_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  conv_grad_input<false>(call);
}
__global__ void __launch_bounds__(kThreads) conv_pool_grad_input_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  conv_grad_input<true>(call);
}

template <bool kPooled>
__device__ void conv_grad_weight(const WideCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &dy = call.in[0], &x = call.in[kPooled ? 3 : 1], &dw = call.out[0];
  const ImageIndex weight = image_index(dw, blockIdx.x);  // output channel, channel of the group, place in the kernel
  const int64_t c = weight.n / (dw.dims[0] / p.groups) * dw.dims[1] + weight.c;
  const int64_t rows = kPooled ? dy.dims[2] * p.pool[0] : dy.dims[2], columns = kPooled ? dy.dims[3] * p.pool[1] : dy.dims[3];
  double sum = 0;
  for_each_of_warp(dy.dims[0] * rows * columns, [&](int64_t e) {
    const int64_t n = e / (rows * columns), pixel = e - n * rows * columns;
    const int i = static_cast<int>(pixel / columns), j = static_cast<int>(pixel % columns);
    const int row = i * p.stride[0] - p.padding[0] + weight.row * p.dilation[0];
    const int column = j * p.stride[1] - p.padding[2] + weight.column * p.dilation[1];
    if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) return;
    sum += conv_gradient<kPooled>(call, n, weight.n, i, j) * wide_at(x, image_place(x, n, c, row, column));
  });
  sum = warp_sum(sum);
  if (threadIdx.x == 0) wide_put(dw, image_place(dw, weight.n, weight.c, weight.row, weight.column), sum, call.accumulate);
}

__global__ void __launch_bounds__(kThreads) conv_grad_weight_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  conv_grad_weight<false>(call);
}
// Behind the weights' elements come the bias'.
__global__ void __launch_bounds__(kThreads) conv_pool_grad_weight_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const View &dy = call.in[0], &y = call.in[1], &dw = call.out[0];
  const int64_t o = blockIdx.x - dw.dims[0] * dw.dims[1] * dw.dims[2] * dw.dims[3], pixels = dy.dims[2] * dy.dims[3];
  if (o < 0) return conv_grad_weight<true>(call);
  double sum = 0;
  for_each_of_warp(dy.dims[0] * pixels, [&](int64_t e) {
    const int64_t n = e / pixels, row = (e - n * pixels) / dy.dims[3], column = (e - n * pixels) % dy.dims[3];
    if (!call.as<ConvParams>().relu || wide_at(y, image_place(y, n, o, row, column)) > 0)
      sum += wide_at(dy, image_place(dy, n, o, row, column));
  });
  sum = warp_sum(sum);
  if (threadIdx.x == 0) wide_put(call.out[1], o * call.out[1].strides[0], sum, call.accumulate);
}

int64_t weights_and_bias(const KernelCall& call) {
  return call.out[0].elements() + (call.n_out > 1 && call.out[1].data != nullptr ? call.out[1].elements() : 0);
}

constexpr size_t kLinear = sizeof(LinearParams), kConv = sizeof(ConvParams);
constexpr WideOp kOps[] = {
    {"linear", linear_wide, wide_elements, kLinear, false},
    {"linear_grad_input", linear_grad_input_wide, wide_elements, kLinear, false},
    {"linear_grad_weight", linear_grad_weight_wide, weights_and_biases, 0, true},
    {"conv2d", conv_wide, wide_elements, kConv, false},
    {"conv2d_grad_input", conv_grad_input_wide, wide_elements, kConv, false},
    {"conv2d_grad_weight", conv_grad_weight_wide, wide_elements, kConv, true},
    {"conv2d_pool", conv_pool_wide, wide_elements, kConv, false},
    {"conv2d_pool_grad_input", conv_pool_grad_input_wide, wide_elements, kConv, false},
    {"conv2d_pool_grad_weight", conv_pool_grad_weight_wide, weights_and_bias, kConv, true},
    {"matmul", matmul_wide, wide_elements, sizeof(MatmulParams), false},
};

const Kernel kKernels[] = {wide_kernel<kOps, 0>(true), wide_kernel<kOps, 1>(true), wide_kernel<kOps, 2>(true), wide_kernel<kOps, 3>(),
                           wide_kernel<kOps, 4>(true), wide_kernel<kOps, 5>(true), wide_kernel<kOps, 6>(),     wide_kernel<kOps, 7>(true),
                           wide_kernel<kOps, 8>(true), wide_kernel<kOps, 9>(true)};

}  // namespace

extern const KernelList kernels_cuda_wide_products;
const KernelList kernels_cuda_wide_products = kernel_list(kKernels);

}  // namespace perigee
