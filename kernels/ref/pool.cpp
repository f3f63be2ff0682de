// Pooling and its adjoint as kernels/ops/pool.h says it.
#include "kernels/ops/pool.h"

#include <cmath>

#include "kernels/ref/image.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

using namespace ref;

// Calls body(row, column, position in the window) for what lies inside the image.
template <class F>
void pool_window(const PoolParams& p, const View& image, int64_t i, int64_t j, F body) {
  for (int64_t q = 0; q < int64_t{p.kernel[0]} * p.kernel[1]; ++q) {
    const int64_t r = i * p.stride[0] - p.padding[0] + q / p.kernel[1] * p.dilation[0];
    const int64_t c = j * p.stride[1] - p.padding[2] + q % p.kernel[1] * p.dilation[1];
    if (r >= 0 && r < image.dims[2] && c >= 0 && c < image.dims[3]) body(r, c, q);
  }
}

template <class F>
void pool_each4(const View& v, F body) {
  for (int64_t n = 0; n < v.dims[0]; ++n)
    for (int64_t o = 0; o < v.dims[1]; ++o)
      for (int64_t i = 0; i < v.dims[2]; ++i)
        for (int64_t j = 0; j < v.dims[3]; ++j) body(n, o, i, j);
}

// The factor of a window's sum.
template <class T>
T pool_scale_of(const PoolParams& p, const View& image, int64_t i, int64_t j) {
  if (p.kind != PoolKind::average) return T(1);
  int64_t count = 0;
  if (p.count_include_pad) count = int64_t{p.kernel[0]} * p.kernel[1];
  else pool_window(p, image, i, j, [&](int64_t, int64_t, int64_t) { ++count; });
  return count > 0 ? T(1) / static_cast<T>(count) : T(0);
}

template <class T>
void pool_max(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  pool_each4(y, [&](int64_t n, int64_t c, int64_t i, int64_t j) {
    T best = 0;
    int64_t where = -1;
    pool_window(call.as<PoolParams>(), x, i, j, [&](int64_t r, int64_t s, int64_t q) {
      const T v = at4<T>(x, n, c, r, s);
      if (where >= 0 && (best != best || (!(v > best) && v == v))) return;  // NaN wins, so that it is seen
      best = v;
      where = q;
    });
    at4<T>(y, n, c, i, j) = best;
    if (call.n_out > 1 && call.out[1].data) store_index(call.out[1], n, c, i, j, where < 0 ? 0 : where);
  });
}

template <class T>
void pool2d(const KernelCall& call) {
  const auto& p = call.as<PoolParams>();
  if (p.kind == PoolKind::max) return pool_max<T>(call);
  const View& x = call.in[0];
  pool_each4(call.out[0], [&](int64_t n, int64_t c, int64_t i, int64_t j) {
    T sum = 0;
    pool_window(p, x, i, j, [&](int64_t r, int64_t s, int64_t) {
      const T v = at4<T>(x, n, c, r, s);
      sum += p.kind == PoolKind::pnorm ? std::pow(std::fabs(v), static_cast<T>(p.p)) : v;
    });
    at4<T>(call.out[0], n, c, i, j) =
        p.kind == PoolKind::pnorm ? std::pow(sum, static_cast<T>(1 / p.p)) : sum * pool_scale_of<T>(p, x, i, j);
  });
}

// dy/dx of one element: sign(x) (|x| / y)^(p-1); zero where the whole window is zero.
template <class T>
T pnorm_slope(T x, T y, T p) {
  if (y == T(0) || x == T(0)) return T(0);
  const T slope = std::pow(std::fabs(x) / y, p - T(1));
  return x < T(0) ? -slope : slope;
}

template <class T>
void pool2d_grad(const KernelCall& call) {
  const auto& p = call.as<PoolParams>();
  const View &dy = call.in[0], &dx = call.out[0];
  if (!call.accumulate) fill4<T>(dx, T(0));
  pool_each4(dy, [&](int64_t n, int64_t c, int64_t i, int64_t j) {
    const T g = at4<T>(dy, n, c, i, j) * pool_scale_of<T>(p, dx, i, j);
    const int64_t winner = p.kind == PoolKind::max ? load_index(call.in[1], n, c, i, j) : -1;
    pool_window(p, dx, i, j, [&](int64_t r, int64_t s, int64_t q) {
      if (winner >= 0 && q != winner) return;
      const T slope = p.kind == PoolKind::pnorm
                          ? pnorm_slope<T>(at4<T>(call.in[1], n, c, r, s), at4<T>(call.in[2], n, c, i, j), static_cast<T>(p.p))
                          : T(1);
      at4<T>(dx, n, c, r, s) += g * slope;
    });
  });
}

template <void (*F32)(const KernelCall&), void (*F64)(const KernelCall&)>
void pool_by_type(const KernelCall& call) {
  call.out[0].dtype == Dtype::f64 ? F64(call) : F32(call);
}

const Kernel kPoolKernels[] = {
    {.op = "pool2d",
     .name = "ref_pool2d",
     .decline = decline_unless_floating,
     .run = widened<pool_by_type<pool2d<float>, pool2d<double>>>,
     .scratch_bytes = widened_scratch<>},
    {.op = "pool2d_grad",
     .name = "ref_pool2d_grad",
     .decline = decline_unless_floating,
     .run = widened<pool_by_type<pool2d_grad<float>, pool2d_grad<double>>>,
     .scratch_bytes = widened_scratch<>,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_ref_pool;
const KernelList kernels_ref_pool = kernel_list(kPoolKernels);

}  // namespace perigee
