// Convolution and its adjoints as the formulas of kernels/ops/conv.h say it: the ground truth.
#include "kernels/ops/conv.h"

#include "kernels/ref/image.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

using namespace ref;

// Calls body(input row, input column, kernel row, kernel column) for what lies inside the image under the window at (i, j).
template <class F>
void conv_window(const ConvParams& p, const View& image, const View& kernel, int64_t i, int64_t j, F body) {
  for (int64_t kr = 0; kr < kernel.dims[2]; ++kr)
    for (int64_t kc = 0; kc < kernel.dims[3]; ++kc) {
      const int64_t r = i * p.stride[0] - p.padding[0] + kr * p.dilation[0];
      const int64_t c = j * p.stride[1] - p.padding[2] + kc * p.dilation[1];
      if (r >= 0 && r < image.dims[2] && c >= 0 && c < image.dims[3]) body(r, c, kr, kc);
    }
}

template <class T>
T conv_at(const ConvParams& p, const View& x, const View& w, int64_t n, int64_t o, int64_t i, int64_t j) {
  const int64_t per_group = w.dims[1], first = o / (w.dims[0] / p.groups) * per_group;
  T sum = 0;
  conv_window(p, x, w, i, j, [&](int64_t r, int64_t c, int64_t kr, int64_t kc) {
    for (int64_t k = 0; k < per_group; ++k) sum += at4<T>(x, n, first + k, r, c) * at4<T>(w, o, k, kr, kc);
  });
  return sum;
}

// One output gradient g at (n, o, i, j) spread over the input gradient, or over the weight gradient.
template <class T>
void spread_input(const ConvParams& p, const View& w, const View& dx, int64_t n, int64_t o, int64_t i, int64_t j, T g) {
  const int64_t per_group = w.dims[1], first = o / (w.dims[0] / p.groups) * per_group;
  conv_window(p, dx, w, i, j, [&](int64_t r, int64_t c, int64_t kr, int64_t kc) {
    for (int64_t k = 0; k < per_group; ++k) at4<T>(dx, n, first + k, r, c) += g * at4<T>(w, o, k, kr, kc);
  });
}

template <class T>
void spread_weight(const ConvParams& p, const View& x, const View& dw, int64_t n, int64_t o, int64_t i, int64_t j, T g) {
  const int64_t per_group = dw.dims[1], first = o / (dw.dims[0] / p.groups) * per_group;
  conv_window(p, x, dw, i, j, [&](int64_t r, int64_t c, int64_t kr, int64_t kc) {
    for (int64_t k = 0; k < per_group; ++k) at4<T>(dw, o, k, kr, kc) += g * at4<T>(x, n, first + k, r, c);
  });
}

template <class F>
void conv_each4(const View& v, F body) {
  for (int64_t n = 0; n < v.dims[0]; ++n)
    for (int64_t o = 0; o < v.dims[1]; ++o)
      for (int64_t i = 0; i < v.dims[2]; ++i)
        for (int64_t j = 0; j < v.dims[3]; ++j) body(n, o, i, j);
}

template <class T>
T bias_at(const KernelCall& call, int64_t o) {
  return call.n_in > 2 && call.in[2].data ? call.in[2].as<T>()[o * call.in[2].strides[0]] : T(0);
}

template <class T>
T relu_if(const ConvParams& p, T v) {
  return p.relu && v < T(0) ? T(0) : v;
}

template <class T>
void conv2d(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  conv_each4(call.out[0], [&](int64_t n, int64_t o, int64_t i, int64_t j) {
    at4<T>(call.out[0], n, o, i, j) = relu_if(p, conv_at<T>(p, call.in[0], call.in[1], n, o, i, j) + bias_at<T>(call, o));
  });
}

template <class T>
void conv2d_grad_input(const KernelCall& call) {
  if (!call.accumulate) fill4<T>(call.out[0], T(0));
  conv_each4(call.in[0], [&](int64_t n, int64_t o, int64_t i, int64_t j) {
    spread_input<T>(call.as<ConvParams>(), call.in[1], call.out[0], n, o, i, j, at4<T>(call.in[0], n, o, i, j));
  });
}

template <class T>
void conv2d_grad_weight(const KernelCall& call) {
  if (!call.accumulate) fill4<T>(call.out[0], T(0));
  conv_each4(call.in[0], [&](int64_t n, int64_t o, int64_t i, int64_t j) {
    spread_weight<T>(call.as<ConvParams>(), call.in[1], call.out[0], n, o, i, j, at4<T>(call.in[0], n, o, i, j));
  });
}

template <class T>
void conv2d_pool(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  conv_each4(call.out[0], [&](int64_t n, int64_t o, int64_t i, int64_t j) {
    T best = 0;
    int64_t where = -1;
    for (int64_t q = 0; q < int64_t{p.pool[0]} * p.pool[1]; ++q) {
      const T v = conv_at<T>(p, call.in[0], call.in[1], n, o, i * p.pool[0] + q / p.pool[1], j * p.pool[1] + q % p.pool[1]);
      if (where >= 0 && !(v > best) && v == v) continue;
      best = v;
      where = q;
      if (v != v) break;  // NaN wins, so that it is seen
    }
    at4<T>(call.out[0], n, o, i, j) = relu_if(p, best + bias_at<T>(call, o));
    store_index(call.out[1], n, o, i, j, where);
  });
}

// Calls body(n, o, convolution row, convolution column, gradient) for each pooled gradient that is alive.
template <class T, class F>
void each_alive(const KernelCall& call, F body) {
  const auto& p = call.as<ConvParams>();
  conv_each4(call.in[0], [&](int64_t n, int64_t o, int64_t i, int64_t j) {
    if (p.relu && !(at4<T>(call.in[1], n, o, i, j) > T(0))) return;
    const int64_t q = load_index(call.in[2], n, o, i, j);
    body(n, o, i * p.pool[0] + q / p.pool[1], j * p.pool[1] + q % p.pool[1], at4<T>(call.in[0], n, o, i, j));
  });
}

template <class T>
void conv2d_pool_grad_input(const KernelCall& call) {
  if (!call.accumulate) fill4<T>(call.out[0], T(0));
  each_alive<T>(call, [&](int64_t n, int64_t o, int64_t i, int64_t j, T g) {
    spread_input<T>(call.as<ConvParams>(), call.in[3], call.out[0], n, o, i, j, g);
  });
}

template <class T>
void conv2d_pool_grad_weight(const KernelCall& call) {
  const View* const db = call.n_out > 1 && call.out[1].data ? &call.out[1] : nullptr;
  if (!call.accumulate) {
    fill4<T>(call.out[0], T(0));
    for (int64_t o = 0; db && o < db->dims[0]; ++o) db->as<T>()[o * db->strides[0]] = T(0);
  }
  each_alive<T>(call, [&](int64_t n, int64_t o, int64_t i, int64_t j, T g) {
    spread_weight<T>(call.as<ConvParams>(), call.in[3], call.out[0], n, o, i, j, g);
    if (db) db->as<T>()[o * db->strides[0]] += g;
  });
}

template <void (*F32)(const KernelCall&), void (*F64)(const KernelCall&)>
void conv_by_type(const KernelCall& call) {
  call.out[0].dtype == Dtype::f64 ? F64(call) : F32(call);
}

template <void (*F32)(const KernelCall&), void (*F64)(const KernelCall&)>
constexpr Kernel reference(const char* op, const char* name, bool accumulates) {
  return {.op = op,
          .name = name,
          .decline = decline_unless_floating,
          .run = widened<conv_by_type<F32, F64>>,
          .scratch_bytes = widened_scratch<>,
          .accumulates = accumulates};
}

const Kernel kConvKernels[] = {
    reference<conv2d<float>, conv2d<double>>("conv2d", "ref_conv2d", false),
    reference<conv2d_grad_input<float>, conv2d_grad_input<double>>("conv2d_grad_input", "ref_conv2d_grad_input", true),
    reference<conv2d_grad_weight<float>, conv2d_grad_weight<double>>("conv2d_grad_weight", "ref_conv2d_grad_weight", true),
    reference<conv2d_pool<float>, conv2d_pool<double>>("conv2d_pool", "ref_conv2d_pool", false),
    reference<conv2d_pool_grad_input<float>, conv2d_pool_grad_input<double>>("conv2d_pool_grad_input", "ref_conv2d_pool_grad_input", true),
    reference<conv2d_pool_grad_weight<float>, conv2d_pool_grad_weight<double>>("conv2d_pool_grad_weight", "ref_conv2d_pool_grad_weight",
                                                                               true),
};

}  // namespace

extern const KernelList kernels_ref_conv;
const KernelList kernels_ref_conv = kernel_list(kConvKernels);

}  // namespace perigee
