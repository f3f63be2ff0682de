// Walking strided views, one element at a time: for reference kernels, where clarity matters and speed does not.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/half.h"
#include "kernels/view.h"

namespace perigee {

// Calls f(index) for each index of `dims`, row-major.
template <class F>
void for_each_index(int rank, const int64_t* dims, F f) {
  for (int i = 0; i < rank; ++i)
    if (dims[i] == 0) return;
  int64_t index[kMaxRank] = {};
  while (true) {
    f(static_cast<const int64_t*>(index));
    int i = rank - 1;
    while (i >= 0 && ++index[i] == dims[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

// The offset of `index`, which has `rank` entries, in a view that is broadcast to that rank.
inline int64_t broadcast_offset(const View& view, const int64_t* index, int rank) {
  int64_t offset = 0;
  for (int i = 0; i < view.rank; ++i)
    if (view.dims[i] != 1) offset += index[rank - view.rank + i] * view.strides[i];
  return offset;
}

inline int64_t offset_of(const View& view, const int64_t* index) {
  int64_t offset = 0;
  for (int i = 0; i < view.rank; ++i) offset += index[i] * view.strides[i];
  return offset;
}

// To integers: toward zero, at most the type's limits, NaN becomes 0.
template <class To, class From>
constexpr To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// One element of any dtype as T, and back.
template <class T>
T load_as(const View& view, int64_t offset) {
  switch (view.dtype) {
    case Dtype::f32: return convert<T>(view.as<float>()[offset]);
    case Dtype::f64: return convert<T>(view.as<double>()[offset]);
    case Dtype::f16: return convert<T>(float_from_f16(view.as<uint16_t>()[offset]));
    case Dtype::bf16: return convert<T>(float_from_bf16(view.as<uint16_t>()[offset]));
    case Dtype::i32: return convert<T>(view.as<int32_t>()[offset]);
    case Dtype::i64: return convert<T>(view.as<int64_t>()[offset]);
    case Dtype::u8: return convert<T>(view.as<uint8_t>()[offset]);
    case Dtype::boolean: return view.as<uint8_t>()[offset] != 0 ? T(1) : T(0);
  }
  return T(0);
}

template <class T>
void store_as(const View& view, int64_t offset, T x) {
  switch (view.dtype) {
    case Dtype::f32: view.as<float>()[offset] = convert<float>(x); break;
    case Dtype::f64: view.as<double>()[offset] = convert<double>(x); break;
    case Dtype::f16: view.as<uint16_t>()[offset] = f16_from_float(convert<float>(x)); break;
    case Dtype::bf16: view.as<uint16_t>()[offset] = bf16_from_float(convert<float>(x)); break;
    case Dtype::i32: view.as<int32_t>()[offset] = convert<int32_t>(x); break;
    case Dtype::i64: view.as<int64_t>()[offset] = convert<int64_t>(x); break;
    case Dtype::u8: view.as<uint8_t>()[offset] = convert<uint8_t>(x); break;
    case Dtype::boolean: view.as<uint8_t>()[offset] = x != T(0); break;
  }
}

// Calls f(T{}) with the type in which a reference kernel computes for `dtype`: f32, f64 or i64 (for all integers).
template <class F>
void with_computing_type(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::f16:
    case Dtype::bf16: return f(float{});
    case Dtype::f64: return f(double{});
    default: return f(int64_t{});
  }
}

}  // namespace perigee
