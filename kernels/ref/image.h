// Rank-4 indexing for the reference loops over images.
#pragma once

#include "kernels/ref/widened.h"

namespace perigee::ref {

template <class T>
T& at4(const View& v, int64_t a, int64_t b, int64_t c, int64_t d) {
  return v.as<T>()[a * v.strides[0] + b * v.strides[1] + c * v.strides[2] + d * v.strides[3]];
}

inline int64_t load_index(const View& v, int64_t a, int64_t b, int64_t c, int64_t d) {
  return v.dtype == Dtype::u8 ? at4<uint8_t>(v, a, b, c, d) : at4<int32_t>(v, a, b, c, d);
}

inline void store_index(const View& v, int64_t a, int64_t b, int64_t c, int64_t d, int64_t value) {
  if (v.dtype == Dtype::u8) at4<uint8_t>(v, a, b, c, d) = static_cast<uint8_t>(value);
  else at4<int32_t>(v, a, b, c, d) = static_cast<int32_t>(value);
}

template <class T>
void fill4(const View& v, T value) {
  for (int64_t a = 0; a < v.dims[0]; ++a)
    for (int64_t b = 0; b < v.dims[1]; ++b)
      for (int64_t c = 0; c < v.dims[2]; ++c)
        for (int64_t d = 0; d < v.dims[3]; ++d) at4<T>(v, a, b, c, d) = value;
}

// The first `n` inputs and output 0 share one floating-point type.
inline const char* decline_unless_floating(const KernelCall& call) {
  return is_floating(call.out[0].dtype) ? nullptr : "only floating-point numbers";
}

}  // namespace perigee::ref
