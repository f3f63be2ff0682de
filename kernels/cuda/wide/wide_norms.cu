// Normalisations, softmax and cross entropy of f64 (wide.cuh): a warp for each channel, row or column, which it goes over two or three times.
#include "kernels/cuda/wide/wide.cuh"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/softmax.h"

namespace perigee {
namespace {

// Elements of one channel, counted over all other dimensions.
struct Channel {
  const View& view;
  int64_t c;
  __device__ double& operator[](int64_t i) const { return wide_at(view, wide_place(view, view.rank, i, 1) + c * view.strides[1]); }
};

__device__ int64_t count_of(const View& view, int without) {
  int64_t n = 1;
  for (int d = 0; d < view.rank; ++d)
    if (d != without) n *= view.dims[d];
  return n;
}

__global__ void __launch_bounds__(kThreads) batch_norm_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<BatchNormParams>();
  const int64_t c = blockIdx.x, n = count_of(call.in[0], 1);
  const Channel x{call.in[0], c}, residual{call.in[3], c}, y{call.out[0], c};
  double sum = 0, squares = 0;
  for_each_of_warp(n, [&](int64_t i) { sum += x[i]; });
  const double mean = warp_sum(sum) / static_cast<double>(n);
  for_each_of_warp(n, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
  const double variance = warp_sum(squares) / static_cast<double>(n);
  const double scale = wide_or(call.in[1], c, 1) / std::sqrt(variance + p.epsilon), shift = wide_or(call.in[2], c, 0);
  for_each_of_warp(n, [&](int64_t i) {
    double value = (x[i] - mean) * scale + shift;
    if (call.in[3].data != nullptr) value += residual[i];
    y[i] = p.relu != 0 && value < 0 ? 0 : value;
  });
  if (threadIdx.x != 0) return;
  wide_at(call.out[1], c * call.out[1].strides[0]) = mean;
  wide_at(call.out[2], c * call.out[2].strides[0]) = variance;
}

__global__ void __launch_bounds__(kThreads) batch_norm_grad_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const auto& p = call.as<BatchNormParams>();
  const int64_t c = blockIdx.x, n = count_of(call.in[1], 1);
  const Channel dy{call.in[0], c}, x{call.in[1], c}, y{call.in[2], c}, dx{call.out[0], c}, dresidual{call.out[3], c};
  const double gamma = wide_or(call.in[3], c, 1), beta = wide_or(call.in[4], c, 0), mean = wide_or(call.in[5], c, 0);
  const double inverse = 1 / std::sqrt(wide_or(call.in[6], c, 0) + p.epsilon);
  const auto normal = [&](int64_t i) { return (x[i] - mean) * inverse; };
  const auto gradient = [&](int64_t i) {
    const bool alive = p.relu == 0 || (call.in[2].data != nullptr ? y[i] : normal(i) * gamma + beta) > 0;
    return alive ? dy[i] : 0.0;
  };
  double sum = 0, product = 0;
  for_each_of_warp(n, [&](int64_t i) {
    const double d = gradient(i);
    sum += d, product += d * normal(i);
  });
  sum = warp_sum(sum), product = warp_sum(product);
  const double count = static_cast<double>(n);
  for_each_of_warp(n, [&](int64_t i) {
    const double d = gradient(i);
    if (p.residual != 0) dresidual[i] = d;
    dx[i] = gamma * inverse * (d - sum / count - normal(i) * (product / count));
  });
  if (threadIdx.x != 0) return;
  wide_at(call.out[1], c * call.out[1].strides[0]) = product;
  wide_at(call.out[2], c * call.out[2].strides[0]) = sum;
}

// Elements of one row: of the last dimension, or of `axis`.
struct Row {
  double* first;
  int64_t stride;
  __device__ Row(const View& view, int axis, int64_t row)
      : first(static_cast<double*>(view.data) + (view.data != nullptr ? wide_place(view, view.rank, row, axis) : 0)),
        stride(view.strides[axis]) {}
  __device__ double& operator[](int64_t i) const { return first[i * stride]; }
};

__global__ void __launch_bounds__(kThreads) layer_norm_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const int axis = call.in[0].rank - 1;
  const int64_t row = blockIdx.x, n = call.in[0].dims[axis];
  const Row x(call.in[0], axis, row), y(call.out[0], axis, row);
  double sum = 0, squares = 0;
  for_each_of_warp(n, [&](int64_t i) { sum += x[i]; });
  const double mean = call.as<LayerNormParams>().centre ? warp_sum(sum) / static_cast<double>(n) : 0;
  for_each_of_warp(n, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
  const double inverse = 1 / std::sqrt(warp_sum(squares) / static_cast<double>(n) + call.as<LayerNormParams>().epsilon);
  for_each_of_warp(n, [&](int64_t i) { y[i] = (x[i] - mean) * inverse * wide_or(call.in[1], i, 1) + wide_or(call.in[2], i, 0); });
  if (threadIdx.x != 0) return;
  wide_at(call.out[1], wide_place(call.out[1], axis, row, -1)) = mean;
  wide_at(call.out[2], wide_place(call.out[2], axis, row, -1)) = inverse;
}

__global__ void __launch_bounds__(kThreads) layer_norm_grad_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const int axis = call.in[1].rank - 1;
  const int64_t row = blockIdx.x, n = call.in[1].dims[axis];
  const Row dy(call.in[0], axis, row), x(call.in[1], axis, row), dx(call.out[0], axis, row);
  const double mean = wide_at(call.in[3], wide_place(call.in[3], axis, row, -1));
  const double inverse = wide_at(call.in[4], wide_place(call.in[4], axis, row, -1));
  const auto gradient = [&](int64_t i) { return dy[i] * wide_or(call.in[2], i, 1); };
  const auto normal = [&](int64_t i) { return (x[i] - mean) * inverse; };
  double sum = 0, product = 0;
  for_each_of_warp(n, [&](int64_t i) { sum += gradient(i), product += gradient(i) * normal(i); });
  sum = call.as<LayerNormParams>().centre ? warp_sum(sum) / static_cast<double>(n) : 0,
  product = warp_sum(product) / static_cast<double>(n);
  for_each_of_warp(n, [&](int64_t i) { dx[i] = inverse * (gradient(i) - sum - normal(i) * product); });
}

// A warp for each column.
__global__ void __launch_bounds__(kThreads) layer_norm_grad_params_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const int axis = call.in[1].rank - 1;
  const int64_t column = blockIdx.x;
  double scale = 0, shift = 0;
  for_each_of_warp(count_of(call.in[1], axis), [&](int64_t row) {
    const double d = Row(call.in[0], axis, row)[column], mean = wide_at(call.in[2], wide_place(call.in[2], axis, row, -1));
    scale += d * (Row(call.in[1], axis, row)[column] - mean) * wide_at(call.in[3], wide_place(call.in[3], axis, row, -1));
    shift += d;
  });
  scale = warp_sum(scale), shift = warp_sum(shift);
  if (threadIdx.x != 0) return;
  wide_put(call.out[0], column * call.out[0].strides[0], scale, call.accumulate);
  wide_put(call.out[1], column * call.out[1].strides[0], shift, call.accumulate);
}

// The logarithm of the sum of exp(x), safe against overflow.
__device__ __attribute__((noinline)) double log_sum_exp(const Row& x, int64_t n) {
  double top = x[min(static_cast<int64_t>(threadIdx.x), n - 1)], sum = 0;
  for_each_of_warp(n, [&](int64_t i) { top = top < x[i] ? x[i] : top; });
  top = group_largest<kWarp>(top);
  for_each_of_warp(n, [&](int64_t i) { sum += wide_exp(x[i] - top); });
  return top + std::log(warp_sum(sum));
}

__device__ void softmax_row(const WideCall& call, bool logarithm) {
  const int axis = call.as<SoftmaxParams>().axis;
  const int64_t n = call.in[0].dims[axis];
  const Row x(call.in[0], axis, blockIdx.x), y(call.out[0], axis, blockIdx.x);
  const double total = log_sum_exp(x, n);
  for_each_of_warp(n, [&](int64_t i) { y[i] = logarithm ? x[i] - total : wide_exp(x[i] - total); });
}

__global__ void __launch_bounds__(kThreads) softmax_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  softmax_row(call, false);
}
__global__ void __launch_bounds__(kThreads) log_softmax_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  softmax_row(call, true);
}

// q of the op's contract; NaN for a class that there is not.
struct Target {
  __device__ Target(const WideCall& call, int64_t row)
      : labels(call.in[1]), keep(1 - call.as<CrossEntropyParams>().label_smoothing), classes(call.in[0].dims[1]) {
    by_class = labels.dtype == Dtype::i64;
    at = wide_place(labels, labels.rank, row, by_class ? -1 : 1);
    chosen = by_class ? static_cast<const int64_t*>(labels.data)[at] : 0;
    rest = chosen < 0 || chosen >= classes ? std::numeric_limits<double>::quiet_NaN() : (1 - keep) / static_cast<double>(classes);
  }
  __device__ double operator()(int64_t c) const {
    return keep * (by_class ? static_cast<double>(c == chosen) : wide_at(labels, at + c * labels.strides[1])) + rest;
  }
  const View& labels;
  double keep, rest;
  int64_t classes, at, chosen;
  bool by_class;
};

__global__ void __launch_bounds__(kThreads) cross_entropy_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const Row x(call.in[0], 1, blockIdx.x);
  const Target target(call, blockIdx.x);
  const double total = log_sum_exp(x, target.classes);
  double sum = 0;
  for_each_of_warp(target.classes, [&](int64_t c) { sum += target(c) * (total - x[c]); });
  sum = warp_sum(sum);
  if (threadIdx.x == 0) wide_at(call.out[0], wide_place(call.out[0], call.out[0].rank, blockIdx.x, -1)) = sum;
}

__global__ void __launch_bounds__(kThreads) cross_entropy_grad_wide(const __grid_constant__ WideCall call) {
  begin_kernel();
  const Row x(call.in[0], 1, blockIdx.x), dx(call.out[0], 1, blockIdx.x);
  const Target target(call, blockIdx.x);
  const double total = log_sum_exp(x, target.classes);
  double mass = 0;
  for_each_of_warp(target.classes, [&](int64_t c) { mass += target(c); });
  mass = warp_sum(mass);
  const double scale = wide_at(call.in[2], wide_place(call.in[2], call.in[2].rank, blockIdx.x, -1));
  for_each_of_warp(target.classes, [&](int64_t c) { dx[c] = (wide_exp(x[c] - total) * mass - target(c)) * scale; });
}

int64_t rows_along(const View& view, int axis) { return view.dims[axis] == 0 ? 0 : view.elements() / view.dims[axis]; }
int64_t channels(const KernelCall& call) { return call.out[0].dims[1]; }
int64_t rows(const KernelCall& call) { return rows_along(call.out[0], call.out[0].rank - 1); }
int64_t softmax_rows(const KernelCall& call) { return rows_along(call.out[0], call.as<SoftmaxParams>().axis); }
int64_t entropy_rows(const KernelCall& call) { return rows_along(call.in[0], 1); }

constexpr WideOp kOps[] = {
    {"batch_norm", batch_norm_wide, channels, sizeof(BatchNormParams), true},
    {"batch_norm_grad", batch_norm_grad_wide, channels, sizeof(BatchNormParams), true},
    {"layer_norm", layer_norm_wide, rows, sizeof(LayerNormParams), true},
    {"layer_norm_grad", layer_norm_grad_wide, rows, sizeof(LayerNormParams), true},
    {"layer_norm_grad_params", layer_norm_grad_params_wide, wide_elements, 0, true},
    {"softmax", softmax_wide, softmax_rows, sizeof(SoftmaxParams), true},
    {"log_softmax", log_softmax_wide, softmax_rows, sizeof(SoftmaxParams), true},
    {"cross_entropy", cross_entropy_wide, entropy_rows, sizeof(CrossEntropyParams), true},
    {"cross_entropy_grad", cross_entropy_grad_wide, entropy_rows, sizeof(CrossEntropyParams), true},
};

const Kernel kKernels[] = {
    wide_kernel<kOps, 0>(), wide_kernel<kOps, 1>(), wide_kernel<kOps, 2>(), wide_kernel<kOps, 3>(), wide_kernel<kOps, 4>(true),
    wide_kernel<kOps, 5>(), wide_kernel<kOps, 6>(), wide_kernel<kOps, 7>(), wide_kernel<kOps, 8>(),
};

}  // namespace

extern const KernelList kernels_cuda_wide_norms;
const KernelList kernels_cuda_wide_norms = kernel_list(kKernels);

}  // namespace perigee
