#include "cluster/replica/moment_sums.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace perigee {
namespace {

// Three numbers of 8 bits and one of 24 hold 48 bits of a double. Sums of the short ones are exact while the replicas' weights add up to
// less than 2^16 times the smallest.
template <class T>
constexpr int kParts = 1;
template <>
constexpr int kParts<float> = 4;

// The first 8 bits of a number.
double leading_bits(double number) { return std::bit_cast<double>(std::bit_cast<uint64_t>(number) & ~((uint64_t{1} << 45) - 1)); }

template <class T>
void put(double number, T* to, int64_t stride) {
  for (int part = 0; part + 1 < kParts<T>; ++part) {
    const double leading = leading_bits(number);
    to[part * stride] = static_cast<T>(leading);
    number -= leading;
  }
  to[(kParts<T> - 1) * stride] = static_cast<T>(number);
}

template <class T>
double take(const T* from, int64_t stride) {
  double sum = 0;
  for (int part = kParts<T>; part-- > 0;) sum += static_cast<double>(from[part * stride]);
  return sum;
}

template <class T>
bool put_all(const T* mean, const T* variance, double weight, int64_t channels, T* row) {
  bool finite = true;
  for (int64_t c = 0; c < channels; ++c) {
    const double m = static_cast<double>(mean[c]);
    put(weight * m, row + c, 2 * channels);
    put(weight * (static_cast<double>(variance[c]) + m * m), row + channels + c, 2 * channels);
    finite = finite && std::isfinite(row[c]) && std::isfinite(row[channels + c]);
  }
  return finite;
}

template <class T>
void take_all(const T* row, double weight, int64_t channels, T* mean, T* variance) {
  for (int64_t c = 0; c < channels; ++c) {
    const double m = take(row + c, 2 * channels) / weight;
    mean[c] = static_cast<T>(m);
    variance[c] = static_cast<T>(std::max(take(row + channels + c, 2 * channels) / weight - m * m, 0.0));
  }
}

}  // namespace

int64_t moment_sums(Dtype dtype, int64_t channels) { return 2 * channels * (dtype == Dtype::f64 ? kParts<double> : kParts<float>); }

bool put_moments(Dtype dtype, const void* mean, const void* variance, double weight, int64_t channels, void* row) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  if (dtype == Dtype::f64)
    return put_all(static_cast<const double*>(mean), static_cast<const double*>(variance), weight, channels, static_cast<double*>(row));
  return put_all(static_cast<const float*>(mean), static_cast<const float*>(variance), weight, channels, static_cast<float*>(row));
}

void take_moments(Dtype dtype, const void* row, double weight, int64_t channels, void* mean, void* variance) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  if (dtype == Dtype::f64)
    return take_all(static_cast<const double*>(row), weight, channels, static_cast<double*>(mean), static_cast<double*>(variance));
  take_all(static_cast<const float*>(row), weight, channels, static_cast<float*>(mean), static_cast<float*>(variance));
}

}  // namespace perigee
