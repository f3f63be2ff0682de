#include "kernels/ops/softmax.h"

#include <algorithm>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// The logarithm of sum(exp(x[i])), safe against overflow.
template <class T>
T log_sum_exp(const T* x, int64_t n, int64_t stride) {
  T top = x[0];
  for (int64_t i = 1; i < n; ++i) top = std::max(top, x[i * stride]);
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - top);
  return top + std::log(sum);
}

template <class T, bool logarithm>
void softmax_of(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const int axis = call.as<SoftmaxParams>().axis;
  const int64_t n = x.dims[axis];
  int64_t rows[kMaxRank];
  for (int i = 0; i < x.rank; ++i) rows[i] = i == axis ? (n > 0) : x.dims[i];
  for_each_index(x.rank, rows, [&](const int64_t* index) {
    const T* from = x.as<T>() + offset_of(x, index);
    T* to = y.as<T>() + offset_of(y, index);
    const T total = log_sum_exp(from, n, x.strides[axis]);
    for (int64_t i = 0; i < n; ++i) {
      const T value = from[i * x.strides[axis]] - total;
      to[i * y.strides[axis]] = logarithm ? value : std::exp(value);
    }
  });
}

template <bool logarithm>
void run_softmax(const KernelCall& call) {
  if (call.in[0].dtype == Dtype::f64) softmax_of<double, logarithm>(call);
  else softmax_of<float, logarithm>(call);
}

// q_c of one position, NaN for a class out of range. `index` is the position (N, d...).
template <class T>
struct Target {
  const View& labels;
  int64_t classes;
  T smoothing;

  T operator()(const int64_t* index, int positions, int64_t c) const {
    T label;
    if (labels.dtype == Dtype::i64) {
      const int64_t chosen = load_as<int64_t>(labels, offset_of(labels, index));
      if (chosen < 0 || chosen >= classes) return std::numeric_limits<T>::quiet_NaN();
      label = chosen == c;
    } else {
      int64_t offset = index[0] * labels.strides[0] + c * labels.strides[1];
      for (int d = 1; d < positions; ++d) offset += index[d] * labels.strides[d + 1];
      label = labels.as<T>()[offset];
    }
    return (T(1) - smoothing) * label + smoothing / static_cast<T>(classes);
  }
};

// Calls f(index, offset of class 0 in the logits, target) for each position.
template <class T, class F>
void for_each_position(const KernelCall& call, F f) {
  const View& logits = call.in[0];
  int64_t dims[kMaxRank] = {logits.dims[0]};
  for (int d = 2; d < logits.rank; ++d) dims[d - 1] = logits.dims[d];
  const Target<T> target{call.in[1], logits.dims[1], static_cast<T>(call.as<CrossEntropyParams>().label_smoothing)};
  for_each_index(logits.rank - 1, dims, [&](const int64_t* index) { f(index, target); });
}

int64_t class_zero_offset(const View& view, const int64_t* index) {
  int64_t offset = index[0] * view.strides[0];
  for (int d = 2; d < view.rank; ++d) offset += index[d - 1] * view.strides[d];
  return offset;
}

template <class T>
void loss_of(const KernelCall& call) {
  const View &logits = call.in[0], &loss = call.out[0];
  for_each_position<T>(call, [&](const int64_t* index, const Target<T>& target) {
    const T* x = logits.as<T>() + class_zero_offset(logits, index);
    const T total = log_sum_exp(x, logits.dims[1], logits.strides[1]);
    T sum = 0;
    for (int64_t c = 0; c < logits.dims[1]; ++c) sum += target(index, loss.rank, c) * (total - x[c * logits.strides[1]]);
    loss.as<T>()[offset_of(loss, index)] = sum;
  });
}

template <class T>
void gradient_of(const KernelCall& call) {
  const View &logits = call.in[0], &grad = call.in[2], &out = call.out[0];
  for_each_position<T>(call, [&](const int64_t* index, const Target<T>& target) {
    const T* x = logits.as<T>() + class_zero_offset(logits, index);
    T* dx = out.as<T>() + class_zero_offset(out, index);
    const T total = log_sum_exp(x, logits.dims[1], logits.strides[1]);
    T mass = 0;
    for (int64_t c = 0; c < logits.dims[1]; ++c) mass += target(index, grad.rank, c);
    const T scale = grad.as<T>()[offset_of(grad, index)];
    for (int64_t c = 0; c < logits.dims[1]; ++c)
      dx[c * out.strides[1]] = (std::exp(x[c * logits.strides[1]] - total) * mass - target(index, grad.rank, c)) * scale;
  });
}

void run_loss(const KernelCall& call) {
  if (call.in[0].dtype == Dtype::f64) loss_of<double>(call);
  else loss_of<float>(call);
}

void run_gradient(const KernelCall& call) {
  if (call.in[0].dtype == Dtype::f64) gradient_of<double>(call);
  else gradient_of<float>(call);
}

constexpr Kernel kSoftmaxKernels[] = {
    {.op = "softmax", .name = "ref", .run = run_softmax<false>},
    {.op = "log_softmax", .name = "ref", .run = run_softmax<true>},
    {.op = "cross_entropy", .name = "ref", .run = run_loss},
    {.op = "cross_entropy_grad", .name = "ref", .run = run_gradient},
};

}  // namespace

extern const KernelList kernels_ref_softmax;
const KernelList kernels_ref_softmax = kernel_list(kSoftmaxKernels);

}  // namespace perigee
