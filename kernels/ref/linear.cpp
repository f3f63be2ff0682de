// Obvious loops: the ground truth of dense layers. Sums run in double whatever the element type.
#include "kernels/ops/linear.h"

#include <cmath>

#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// A view of [..., C] addressed by row number and column, whatever its strides.
template <class T>
struct Rows {
  explicit Rows(const View& view) : v(view) {
    for (int i = 0; i < v.rank - 1; ++i) count *= v.dims[i];
  }
  T& operator()(int64_t row, int64_t column) const {
    int64_t offset = column * v.strides[v.rank - 1];
    for (int i = v.rank - 2; i >= 0; --i) {
      offset += row % v.dims[i] * v.strides[i];
      row /= v.dims[i];
    }
    return v.as<T>()[offset];
  }
  const View& v;
  int64_t count = 1;
};

template <class T>
void put(const KernelCall& call, T& out, double value) {
  out = call.accumulate ? static_cast<T>(out + value) : static_cast<T>(value);
}

double activated(LinearActivation activation, double z) {
  if (activation == LinearActivation::relu) return !(z > 0) && z == z ? 0.0 : z;
  return activation == LinearActivation::gelu_tanh ? gelu_value(z, std::tanh(gelu_argument(z))) : z;
}

template <class T>
void linear(const KernelCall& call) {
  const Rows<T> x(call.in[0]), w(call.in[1]), y(call.out[0]);
  const View* bias = call.n_in > 2 && call.in[2].data ? &call.in[2] : nullptr;
  const View* kept = call.n_out > 1 && call.out[1].data ? &call.out[1] : nullptr;
  const int64_t k = call.in[1].dims[1], n = call.in[1].dims[0];
  for (int64_t r = 0; r < y.count; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias ? double(bias->as<T>()[j * bias->strides[0]]) : 0.0;
      for (int64_t l = 0; l < k; ++l) sum += double(x(r, l)) * double(w(j, l));
      if (kept) put(call, Rows<T>(*kept)(r, j), sum);
      put(call, y(r, j), activated(call.as<LinearParams>().activation, sum));
    }
  }
}

double slope(LinearActivation activation, double kept) {
  if (activation == LinearActivation::relu) return kept > 0 ? 1 : 0;
  return gelu_slope(kept, std::tanh(gelu_argument(kept)));
}

template <class T>
void linear_grad_input(const KernelCall& call) {
  const Rows<T> dz(call.in[0]), w(call.in[1]), dx(call.out[0]);
  const View* kept = call.n_in > 2 && call.in[2].data ? &call.in[2] : nullptr;
  const int64_t k = call.in[1].dims[1], n = call.in[1].dims[0];
  for (int64_t r = 0; r < dx.count; ++r) {
    for (int64_t l = 0; l < k; ++l) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += double(dz(r, j)) * double(w(j, l));
      const double by = kept ? slope(call.as<LinearParams>().activation, double(Rows<T>(*kept)(r, l))) : 1;
      put(call, dx(r, l), by == 0 ? 0 : sum * by);  // what relu stops it stops, even if it is not finite
    }
  }
}

template <class T>
void linear_grad_weight(const KernelCall& call) {
  const Rows<T> dz(call.in[0]), x(call.in[1]), dw(call.out[0]);
  const int64_t k = call.out[0].dims[1], n = call.out[0].dims[0];
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t l = 0; l < k; ++l) {
      double sum = 0;
      for (int64_t r = 0; r < x.count; ++r) sum += double(dz(r, j)) * double(x(r, l));
      put(call, dw(j, l), sum);
    }
    if (call.n_out < 2 || !call.out[1].data) continue;
    double sum = 0;
    for (int64_t r = 0; r < x.count; ++r) sum += double(dz(r, j));
    put(call, call.out[1].as<T>()[j * call.out[1].strides[0]], sum);
  }
}

const char* decline_linear(const KernelCall& call) {
  const Dtype dtype = call.out[0].dtype;
  if (!is_floating(dtype)) return "only floating-point numbers";
  if (call.in[0].dtype != dtype || call.in[1].dtype != dtype) return "mixed dtypes";
  return nullptr;
}

template <void (*F32)(const KernelCall&), void (*F64)(const KernelCall&)>
void run_linear(const KernelCall& call) {
  call.out[0].dtype == Dtype::f64 ? F64(call) : F32(call);
}

const Kernel kLinearKernels[] = {
    {.op = "linear",
     .name = "ref",
     .decline = decline_linear,
     .run = widened<run_linear<linear<float>, linear<double>>>,
     .scratch_bytes = widened_scratch<>,
     .accumulates = true},
    {.op = "linear_grad_input",
     .name = "ref",
     .decline = decline_linear,
     .run = widened<run_linear<linear_grad_input<float>, linear_grad_input<double>>>,
     .scratch_bytes = widened_scratch<>,
     .accumulates = true},
    {.op = "linear_grad_weight",
     .name = "ref",
     .decline = decline_linear,
     .run = widened<run_linear<linear_grad_weight<float>, linear_grad_weight<double>>>,
     .scratch_bytes = widened_scratch<>,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_ref_linear;
const KernelList kernels_ref_linear = kernel_list(kLinearKernels);

}  // namespace perigee
