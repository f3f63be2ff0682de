// Elements whose dtype is known when the kernel runs: one kernel serves all dtypes, for what such loops wait for is memory, not the branch,
// which all threads take alike. The type that a kernel computes in is read and written in line, all others by a function: the module is part
// of what is installed.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/half.h"
#include "kernels/ref/strided.h"

namespace perigee {

template <class T>
constexpr Dtype kDtypeOf = std::is_same_v<T, float>    ? Dtype::f32
                           : std::is_same_v<T, double> ? Dtype::f64
                                                       : Dtype::i64;

template <class T>
__device__ __attribute__((noinline)) T load_element(const void* data, Dtype dtype, int64_t i) {
  switch (dtype) {
    case Dtype::f32: return convert<T>(static_cast<const float*>(data)[i]);
    case Dtype::f64: return convert<T>(static_cast<const double*>(data)[i]);
    case Dtype::f16: return convert<T>(float_from_f16(static_cast<const uint16_t*>(data)[i]));
    case Dtype::bf16: return convert<T>(float_from_bf16(static_cast<const uint16_t*>(data)[i]));
    case Dtype::i32: return convert<T>(static_cast<const int32_t*>(data)[i]);
    case Dtype::i64: return convert<T>(static_cast<const int64_t*>(data)[i]);
    case Dtype::u8: return convert<T>(static_cast<const uint8_t*>(data)[i]);
    case Dtype::boolean: return static_cast<const uint8_t*>(data)[i] != 0 ? T(1) : T(0);
  }
  return T(0);
}

template <class T>
__device__ __attribute__((noinline)) void store_element(void* data, Dtype dtype, int64_t i, T x) {
  switch (dtype) {
    case Dtype::f32: static_cast<float*>(data)[i] = convert<float>(x); break;
    case Dtype::f64: static_cast<double*>(data)[i] = convert<double>(x); break;
    case Dtype::f16: static_cast<uint16_t*>(data)[i] = f16_from_float(convert<float>(x)); break;
    case Dtype::bf16: static_cast<uint16_t*>(data)[i] = bf16_from_float(convert<float>(x)); break;
    case Dtype::i32: static_cast<int32_t*>(data)[i] = convert<int32_t>(x); break;
    case Dtype::i64: static_cast<int64_t*>(data)[i] = convert<int64_t>(x); break;
    case Dtype::u8: static_cast<uint8_t*>(data)[i] = convert<uint8_t>(x); break;
    case Dtype::boolean: static_cast<uint8_t*>(data)[i] = x != T(0); break;
  }
}

// A view without its strides, which the kernel handles elsewhere.
struct Elements {
  Elements() = default;
  explicit Elements(const View& view) : data(view.data), dtype(view.dtype) {}
  template <class T>
  __device__ T load(int64_t i) const {
    return dtype == kDtypeOf<T> ? static_cast<const T*>(data)[i] : load_element<T>(data, dtype, i);
  }
  template <class T>
  __device__ void store(int64_t i, T x) const {
    if (dtype == kDtypeOf<T>) static_cast<T*>(data)[i] = x;
    else store_element<T>(data, dtype, i, x);
  }
  // Joins what is there already when the call accumulates.
  template <class T>
  __device__ void put(int64_t i, T x, bool accumulate) const {
    store<T>(i, accumulate ? load<T>(i) + x : x);
  }

  void* data = nullptr;
  Dtype dtype = Dtype::f32;
};

}  // namespace perigee
