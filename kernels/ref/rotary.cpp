#include "kernels/ops/rotary.h"

#include <cmath>

#include "kernels/ref/strided.h"
#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
void run_rotary_typed(const KernelCall& call) {
  const RotaryParams& p = call.as<RotaryParams>();
  const View &x = call.in[0], &y = call.out[0];
  for_each_index(3, x.dims, [&](const int64_t* index) {
    const T* from = x.as<T>();
    T* to = y.as<T>();
    for (int i = 0; i < 3; ++i) from += index[i] * x.strides[i], to += index[i] * y.strides[i];
    const int64_t width = index[2] < p.heads ? p.width : 0;
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(index[1] + first_position(call, p, index[0])) *
                           std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(p.width));
      const double cosine = std::cos(angle), sine = p.inverse ? -std::sin(angle) : std::sin(angle);
      const int64_t first = first_of_pair(p, i), second = second_of_pair(p, i);
      const double a = static_cast<double>(from[first * x.strides[3]]), b = static_cast<double>(from[second * x.strides[3]]);
      to[first * y.strides[3]] = static_cast<T>(a * cosine - b * sine);
      to[second * y.strides[3]] = static_cast<T>(a * sine + b * cosine);
    }
    for (int64_t c = width; c < x.dims[3]; ++c) to[c * y.strides[3]] = from[c * x.strides[3]];
  });
}

void run_rotary(const KernelCall& call) { call.in[0].dtype == Dtype::f64 ? run_rotary_typed<double>(call) : run_rotary_typed<float>(call); }

const Kernel kRotaryKernels[] = {{.op = "rotary", .name = "ref", .run = widened<run_rotary>, .scratch_bytes = widened_scratch<>}};

}  // namespace

extern const KernelList kernels_ref_rotary;
const KernelList kernels_ref_rotary = kernel_list(kRotaryKernels);

}  // namespace perigee
