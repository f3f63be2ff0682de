#include "kernels/block_math.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <type_traits>

namespace perigee {
namespace {

// Whether an element's exponent says NaN or infinity: integer arithmetic, so that a loop over it is vectorised.
template <class T>
auto not_finite(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits kExponent = sizeof(T) == 4 ? Bits{0x7f800000u} : static_cast<Bits>(0x7ff0000000000000ull);
  return static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
}

template <class T>
struct Block {
  static const T* in(const void* data) { return static_cast<const T*>(data); }
  static T* out(void* data) { return static_cast<T*>(data); }

  static void add(const void* left, const void* right, int64_t n, void* to) {
    const T *a = in(left), *b = in(right);
    T* sum = out(to);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
  }
  static void add_change(const void* before, const void* now, int64_t n, void* to) {
    const T *old = in(before), *fresh = in(now);
    T* values = out(to);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) values[i] += fresh[i] - old[i];
  }
  static void approach(const void* from, double share, int64_t n, void* to) {
    const T part = static_cast<T>(share);
    const T* goal = in(from);
    T* values = out(to);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) values[i] += part * (goal[i] - values[i]);
  }
  static bool scale(const void* from, double factor, int64_t n, void* to) {
    const T by = static_cast<T>(factor);
    const T* values = in(from);
    T* products = out(to);
    decltype(not_finite(by)) bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; ++i) {
      const T value = values[i] * by;
      products[i] = value;
      bad |= not_finite(value);
    }
    return bad == 0;
  }
  static void divide(const void* from, double by, int64_t n, void* to) {
    const T divisor = static_cast<T>(by);
    const T* values = in(from);
    T* quotients = out(to);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) quotients[i] = values[i] / divisor;
  }
  static void fill(double value, int64_t n, void* to) { std::fill_n(out(to), n, static_cast<T>(value)); }
  static bool finite(const void* from, int64_t n) {
    decltype(not_finite(T())) bad = 0;
    for (int64_t i = 0; i < n; ++i) bad |= not_finite(in(from)[i]);
    return bad == 0;
  }

  static double sum(const void* from, int64_t n, double start) {
    for (int64_t i = 0; i < n; ++i) start += static_cast<double>(in(from)[i]);
    return start;
  }
  // Eight sums side by side, so that the order of additions does not depend on how wide the machine's vectors are.
  static double sum_of_squares(const void* from, int64_t n) {
    const T* values = in(from);
    double lanes[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
    for (int k = 0; i < n; ++i, ++k) lanes[k] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  static void sizes(const void* from, int64_t n, double* absolute, double* square) {
    *absolute = *square = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(in(from)[i]);
      *absolute += std::fabs(value);
      *square += value * value;
    }
  }
  static int64_t largest(const void* from, int64_t n) { return std::max_element(in(from), in(from) + n) - in(from); }

  static void cut_negative(void* vector, const int64_t* members, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T& value = out(vector)[members[i]];
      value = value < T(0) ? T(0) : value;
    }
  }
  static void limit_length(void* vector, const int64_t* members, int64_t n, double low, double high, double rate) {
    constexpr double kTiny = 1e-6;  // as Deeplearning4j adds to norms
    double square = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(out(vector)[members[i]]);
      square += value * value;
    }
    const double norm = std::sqrt(square), wanted = std::clamp(norm, low, high);
    if (norm == wanted) return;
    const T factor = static_cast<T>((rate * wanted + (1 - rate) * norm) / (norm + kTiny));
    for (int64_t i = 0; i < n; ++i) out(vector)[members[i]] *= factor;
  }

  static constexpr BlockMath table(Dtype dtype) {
    return {.dtype = dtype,
            .add = add,
            .add_change = add_change,
            .approach = approach,
            .scale = scale,
            .divide = divide,
            .fill = fill,
            .finite = finite,
            .sum = sum,
            .sum_of_squares = sum_of_squares,
            .sizes = sizes,
            .largest = largest,
            .cut_negative = cut_negative,
            .limit_length = limit_length};
  }
};

constexpr BlockMath kFloats = Block<float>::table(Dtype::f32), kDoubles = Block<double>::table(Dtype::f64);

}  // namespace

const BlockMath& block_math(Dtype dtype) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  return dtype == Dtype::f64 ? kDoubles : kFloats;
}

}  // namespace perigee
