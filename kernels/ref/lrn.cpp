#include "kernels/ops/lrn.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// Calls f(first element's offset in each view) for every position of an image; channels are then a strided vector.
template <class F>
void for_positions(const View& x, F f) {
  int64_t dims[kMaxRank];
  std::copy(x.dims, x.dims + x.rank, dims);
  dims[1] = 1;
  for_each_index(x.rank, dims, f);
}

// d of channel c.
template <class T>
double denominator(const T* x, int64_t stride, int64_t channels, int64_t c, const LrnParams& p) {
  double sum = 0;
  for (int64_t j = std::max<int64_t>(0, c - p.size / 2); j < std::min(channels, c - p.size / 2 + p.size); ++j)
    sum += static_cast<double>(x[j * stride]) * static_cast<double>(x[j * stride]);
  return p.k + p.alpha * sum;
}

template <class T>
void forward_lrn_typed(const KernelCall& call) {
  const auto& p = call.as<LrnParams>();
  const View &x = call.in[0], &y = call.out[0];
  for_positions(x, [&](const int64_t* index) {
    const T* from = x.as<T>() + offset_of(x, index);
    T* to = y.as<T>() + offset_of(y, index);
    for (int64_t c = 0; c < x.dims[1]; ++c)
      to[c * y.strides[1]] =
          static_cast<T>(static_cast<double>(from[c * x.strides[1]]) * std::pow(denominator(from, x.strides[1], x.dims[1], c, p), -p.beta));
  });
}

template <class T>
void backward_lrn_typed(const KernelCall& call) {
  const auto& p = call.as<LrnParams>();
  const View &dy = call.in[0], &x = call.in[1], &dx = call.out[0];
  const int64_t channels = x.dims[1];
  for_positions(x, [&](const int64_t* index) {
    const T* g = dy.as<T>() + offset_of(dy, index);
    const T* from = x.as<T>() + offset_of(x, index);
    T* to = dx.as<T>() + offset_of(dx, index);
    const auto d = [&](int64_t c) { return denominator(from, x.strides[1], channels, c, p); };
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;  // over the windows that c is in
      for (int64_t j = std::max<int64_t>(0, c - (p.size - 1 - p.size / 2)); j <= std::min(channels - 1, c + p.size / 2); ++j)
        sum += static_cast<double>(g[j * dy.strides[1]]) * static_cast<double>(from[j * x.strides[1]]) * std::pow(d(j), -p.beta - 1);
      to[c * dx.strides[1]] = static_cast<T>(static_cast<double>(g[c * dy.strides[1]]) * std::pow(d(c), -p.beta) -
                                             2 * p.alpha * p.beta * static_cast<double>(from[c * x.strides[1]]) * sum);
    }
  });
}

void forward_lrn(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? forward_lrn_typed<double>(call) : forward_lrn_typed<float>(call);
}
void backward_lrn(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? backward_lrn_typed<double>(call) : backward_lrn_typed<float>(call);
}

const Kernel kLrnKernels[] = {
    {.op = "lrn", .name = "ref", .run = forward_lrn},
    {.op = "lrn_grad", .name = "ref", .run = backward_lrn},
};

}  // namespace

extern const KernelList kernels_ref_lrn;
const KernelList kernels_ref_lrn = kernel_list(kLrnKernels);

}  // namespace perigee
