// Integer arithmetic that wraps around, as NumPy's and PyTorch's does; C++ leaves signed overflow undefined.
#pragma once

#include <type_traits>

namespace perigee {

template <class T>
constexpr T wrapped_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}

template <class T>
constexpr T wrapped_subtract(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
  else return a - b;
}

template <class T>
constexpr T wrapped_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
  else return a * b;
}

}  // namespace perigee
