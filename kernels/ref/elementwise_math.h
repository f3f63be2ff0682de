// The meaning of each element-wise operation, once for the reference and for CUDA kernels: `constexpr`, so that nvcc may call it in device
// code. T is float, double or int64_t.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/ops/elementwise.h"
#include "kernels/wrap.h"

namespace perigee {

template <class T>
constexpr T evaluate_float(Elementwise op, T a) {
  using E = Elementwise;
  switch (op) {
    case E::reciprocal: return T(1) / a;
    case E::sqrt: return std::sqrt(a);
    case E::rsqrt: return T(1) / std::sqrt(a);
    case E::exp: return std::exp(a);
    case E::expm1: return std::expm1(a);
    case E::log: return std::log(a);
    case E::log1p: return std::log1p(a);
    case E::sin: return std::sin(a);
    case E::cos: return std::cos(a);
    case E::tan: return std::tan(a);
    case E::asin: return std::asin(a);
    case E::acos: return std::acos(a);
    case E::atan: return std::atan(a);
    case E::sinh: return std::sinh(a);
    case E::cosh: return std::cosh(a);
    case E::tanh: return std::tanh(a);
    case E::sigmoid: return T(1) / (T(1) + std::exp(-a));
    case E::softplus: return (a > T(0) ? a : T(0)) + std::log1p(std::exp(-std::abs(a)));
    case E::erf: return std::erf(a);
    case E::floor: return std::floor(a);
    case E::ceil: return std::ceil(a);
    case E::round: return std::nearbyint(a);
    case E::is_finite: return std::isfinite(a);
    default: return a;
  }
}

// Integer division and powers by what NumPy does: floor, 0 where the divisor is 0.
constexpr int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

template <class T>
constexpr T negated(T a) {
  if constexpr (std::is_integral_v<T>) return wrapped_subtract(T(0), a);
  else return -a;
}

template <class T>
constexpr T evaluate_binary(Elementwise op, T a, T b) {
  using E = Elementwise;
  constexpr bool real = std::is_floating_point_v<T>;
  switch (op) {
    case E::add: return wrapped_add(a, b);
    case E::sub: return wrapped_subtract(a, b);
    case E::mul: return wrapped_multiply(a, b);
    case E::div:
      if constexpr (real) return a / b;
      else return floor_divide(a, b);
    case E::pow:
      if constexpr (real) {
        return std::pow(a, b);
      } else {
        T power = 1;
        for (; b > 0; b >>= 1, a = wrapped_multiply(a, a))
          if (b & 1) power = wrapped_multiply(power, a);
        return power;
      }
    case E::mod:
      if constexpr (real) return a - std::floor(a / b) * b;
      else return wrapped_subtract(a, wrapped_multiply(floor_divide(a, b), b));
    case E::maximum: return a > b || a != a ? a : b;
    case E::minimum: return a < b || a != a ? a : b;
    case E::equal: return a == b;
    case E::not_equal: return a != b;
    case E::less: return a < b;
    case E::less_equal: return a <= b;
    case E::greater: return a > b;
    case E::greater_equal: return a >= b;
    case E::logical_and: return a != T(0) && b != T(0);
    case E::logical_or: return a != T(0) || b != T(0);
    default: return a;
  }
}

// Operands beyond the op's arity are ignored. Integers must not be given ops that `elementwise` refuses for them.
template <class T>
constexpr T evaluate(Elementwise op, T a, T b, T c) {
  using E = Elementwise;
  switch (op) {
    case E::neg: return negated(a);
    case E::abs: return a < T(0) ? negated(a) : a == T(0) ? T(0) : a;
    case E::sign: return a > T(0) ? T(1) : a < T(0) ? T(-1) : a;
    case E::square: return wrapped_multiply(a, a);
    case E::relu: return a > T(0) || a != a ? a : T(0);
    case E::logical_not: return a == T(0);
    case E::where: return a != T(0) ? b : c;
    default: break;
  }
  if (elementwise_arity(op) == 2) return evaluate_binary(op, a, b);
  if constexpr (std::is_floating_point_v<T>) return evaluate_float(op, a);
  else return op == E::is_finite ? T(1) : a;  // floor, ceil, round
}

}  // namespace perigee
