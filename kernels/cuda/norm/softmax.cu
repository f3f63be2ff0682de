// softmax, log_softmax, cross_entropy and its gradient. A group of threads takes one row (rows.cuh): its largest element, the sum of the
// exponentials, the result. A row is read two or three times, but from memory only once while it fits into the first cache.
#include "kernels/ops/softmax.h"

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// One row of an operand.
struct Row {
  Elements of;
  int64_t offset, stride;
  template <class T>
  __device__ T load(int64_t i) const {
    return of.load<T>(offset + i * stride);
  }
};

// The logarithm of the sum of exp(x), safe against overflow.
template <int kGroup, class T>
__device__ T log_sum_exp(const Row& x, int64_t n) {
  const int self = rank_in_group<kGroup>();
  T top = x.load<T>(min(int64_t{self}, n - 1));
#pragma unroll 1
  for (int64_t i = self; i < n; i += kGroup) {
    const T value = x.load<T>(i);
    top = top < value ? value : top;
  }
  top = group_largest<kGroup>(top);
  T sum = 0;
#pragma unroll 1
  for (int64_t i = self; i < n; i += kGroup) sum += std::exp(x.load<T>(i) - top);
  return top + std::log(group_sum<kGroup>(sum));
}

struct SoftmaxCall {
  Elements x, y;
  int64_t n, x_stride, y_stride;
  Walk<2> rows;
  bool logarithm;
};

template <int kGroup, class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(SoftmaxCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t row = group_of_grid<kGroup>(); row < call.rows.n; row += groups_of_grid<kGroup>()) {
    int64_t at[2];
    locate(call.rows, row, at);
    const Row x{call.x, at[0], call.x_stride};
    const T total = log_sum_exp<kGroup, T>(x, call.n);
#pragma unroll 1
    for (int64_t i = rank_in_group<kGroup>(); i < call.n; i += kGroup) {
      const T value = x.load<T>(i) - total;
      call.y.store<T>(at[1] + i * call.y_stride, call.logarithm ? value : std::exp(value));
    }
  }
}

template <bool kLogarithm>
void softmax(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const int axis = call.as<SoftmaxParams>().axis;
  const View x_rows = without_axis(x, axis), y_rows = without_axis(y, axis);
  const SoftmaxCall all{Elements(x), Elements(y), x.dims[axis], x.strides[axis], y.strides[axis], make_walk<2>(y_rows, {&x_rows, &y_rows}),
                        kLogarithm};
  if (all.n == 0) return;
  Launches on(*call.queue, "softmax");
  with_group(all.n, all.x_stride, [&](auto group) {
    on.launch(softmax_kernel<decltype(group)::value, float>, blocks_for_rows(all.rows.n, group), kThreads, all);
  });
}

struct EntropyCall {
  Elements x, labels, gradient, out;  // out: losses, or the gradient of the logits
  int64_t classes, x_stride, label_stride, out_stride;
  Walk<4> rows;  // x, labels, gradient, out
  double smoothing;
  bool by_class;  // labels are classes, not distributions
};

// q of the op's contract.
template <class T>
struct Target {
  __device__ Target(const EntropyCall& call, int64_t offset)
      : labels{call.labels, offset, call.label_stride},
        chosen(call.by_class ? call.labels.load<int64_t>(offset) : -1),
        keep(T(1) - T(call.smoothing)),
        rest(T(call.smoothing) / static_cast<T>(call.classes)),
        by_class(call.by_class),
        valid(!call.by_class || (chosen >= 0 && chosen < call.classes)) {}
  __device__ T operator()(int64_t c) const { return keep * (by_class ? T(c == chosen) : labels.load<T>(c)) + rest; }

  Row labels;
  int64_t chosen;
  T keep, rest;
  bool by_class, valid;
};

template <int kGroup, class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(EntropyCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t row = group_of_grid<kGroup>(); row < call.rows.n; row += groups_of_grid<kGroup>()) {
    int64_t at[4];
    locate(call.rows, row, at);
    const Row x{call.x, at[0], call.x_stride};
    const Target<T> target(call, at[1]);
    const T total = log_sum_exp<kGroup, T>(x, call.classes);
    T sum = 0;
#pragma unroll 1
    for (int64_t c = rank_in_group<kGroup>(); c < call.classes; c += kGroup) sum += target(c) * (total - x.load<T>(c));
    sum = group_sum<kGroup>(sum);
    if (rank_in_group<kGroup>() == 0) call.out.store<T>(at[3], target.valid ? sum : std::numeric_limits<T>::quiet_NaN());
  }
}

template <int kGroup, class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_grad_kernel(EntropyCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t row = group_of_grid<kGroup>(); row < call.rows.n; row += groups_of_grid<kGroup>()) {
    int64_t at[4];
    locate(call.rows, row, at);
    const Row x{call.x, at[0], call.x_stride};
    const Target<T> target(call, at[1]);
    const T total = log_sum_exp<kGroup, T>(x, call.classes);
    T mass = 0;
#pragma unroll 1
    for (int64_t c = rank_in_group<kGroup>(); c < call.classes; c += kGroup) mass += target(c);
    mass = target.valid ? group_sum<kGroup>(mass) : group_sum<kGroup>(std::numeric_limits<T>::quiet_NaN());
    const T scale = call.gradient.load<T>(at[2]);
#pragma unroll 1
    for (int64_t c = rank_in_group<kGroup>(); c < call.classes; c += kGroup)
      call.out.store<T>(at[3] + c * call.out_stride, (std::exp(x.load<T>(c) - total) * mass - target(c)) * scale);
  }
}

EntropyCall entropy_call(const KernelCall& call, const View* gradient, const View& positions) {
  const View &x = call.in[0], &labels = call.in[1], &out = call.out[0];
  const bool by_class = labels.dtype == Dtype::i64;
  const View x_rows = without_axis(x, 1), label_rows = by_class ? labels : without_axis(labels, 1),
             out_rows = out.rank == x.rank ? without_axis(out, 1) : out;
  return {.x = Elements(x),
          .labels = Elements(labels),
          .gradient = gradient ? Elements(*gradient) : Elements(),
          .out = Elements(out),
          .classes = x.dims[1],
          .x_stride = x.strides[1],
          .label_stride = by_class ? 0 : labels.strides[1],
          .out_stride = out.rank == x.rank ? out.strides[1] : 0,
          .rows = make_walk<4>(positions, {&x_rows, &label_rows, gradient, &out_rows}),
          .smoothing = call.as<CrossEntropyParams>().label_smoothing,
          .by_class = by_class};
}

void cross_entropy(const KernelCall& call) {
  const EntropyCall all = entropy_call(call, nullptr, call.out[0]);
  Launches on(*call.queue, "cross_entropy");
  with_group(all.classes, all.x_stride, [&](auto group) {
    on.launch(cross_entropy_kernel<decltype(group)::value, float>, blocks_for_rows(all.rows.n, group), kThreads, all);
  });
}

void cross_entropy_grad(const KernelCall& call) {
  const EntropyCall all = entropy_call(call, &call.in[2], call.in[2]);
  Launches on(*call.queue, "cross_entropy_grad");
  with_group(all.classes, all.x_stride, [&](auto group) {
    on.launch(cross_entropy_grad_kernel<decltype(group)::value, float>, blocks_for_rows(all.rows.n, group), kThreads, all);
  });
}

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&)) {
  return {.op = op, .name = "softmax", .backend = Backend::cuda, .decline = decline_unless_f32, .run = run};
}

const Kernel kKernels[] = {
    kernel("softmax", softmax<false>),
    kernel("log_softmax", softmax<true>),
    kernel("cross_entropy", cross_entropy),
    kernel("cross_entropy_grad", cross_entropy_grad),
};

}  // namespace

extern const KernelList kernels_cuda_softmax;
const KernelList kernels_cuda_softmax = kernel_list(kKernels);

}  // namespace perigee
