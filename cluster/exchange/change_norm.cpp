#include "cluster/exchange/change_norm.h"

#include <cassert>
#include <cmath>

namespace perigee {
namespace {

template <class T>
double distance(const T* before, const T* now, int64_t n) {
  constexpr int64_t kLanes = 8;  // independent sums, so that they go side by side
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double d = static_cast<double>(now[i + lane]) - static_cast<double>(before[i + lane]);
      sums[lane] += d * d;
    }
  for (; i < n; ++i) {
    const double d = static_cast<double>(now[i]) - static_cast<double>(before[i]);
    sums[0] += d * d;
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

}  // namespace

double change_norm(Dtype dtype, const void* before, const void* now, int64_t n) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  return dtype == Dtype::f32 ? distance(static_cast<const float*>(before), static_cast<const float*>(now), n)
                             : distance(static_cast<const double*>(before), static_cast<const double*>(now), n);
}

}  // namespace perigee
