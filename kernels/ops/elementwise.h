// Element-wise operations: the ops of these names, and the instructions of `fused`.
// Operands: in[0..arity-1] broadcast against each other as in NumPy (shapes aligned at the last dimension); out[0] has the
// broadcast shape. Operands may have any strides. No Params. Within a kernel a truth value is 0 or 1 of the computing type.
#pragma once

#include <cstdint>

namespace perigee {

// X(name, arity, result): result is `same` (the operands' dtype) or `truth` (boolean).
#define PERIGEE_ELEMENTWISE_OPS(X) \
  X(neg, 1, same)                  \
  X(abs, 1, same)                  \
  X(sign, 1, same)                 \
  X(square, 1, same)               \
  X(reciprocal, 1, same)           \
  X(sqrt, 1, same)                 \
  X(rsqrt, 1, same)                \
  X(exp, 1, same)                  \
  X(expm1, 1, same)                \
  X(log, 1, same)                  \
  X(log1p, 1, same)                \
  X(sin, 1, same)                  \
  X(cos, 1, same)                  \
  X(tan, 1, same)                  \
  X(asin, 1, same)                 \
  X(acos, 1, same)                 \
  X(atan, 1, same)                 \
  X(sinh, 1, same)                 \
  X(cosh, 1, same)                 \
  X(tanh, 1, same)                 \
  X(sigmoid, 1, same)              \
  X(softplus, 1, same)             \
  X(relu, 1, same)                 \
  X(erf, 1, same)                  \
  X(floor, 1, same)                \
  X(ceil, 1, same)                 \
  X(round, 1, same)                \
  X(logical_not, 1, truth)         \
  X(is_finite, 1, truth)           \
  X(add, 2, same)                  \
  X(sub, 2, same)                  \
  X(mul, 2, same)                  \
  X(div, 2, same)                  \
  X(pow, 2, same)                  \
  X(maximum, 2, same)              \
  X(minimum, 2, same)              \
  X(mod, 2, same)                  \
  X(equal, 2, truth)               \
  X(not_equal, 2, truth)           \
  X(less, 2, truth)                \
  X(less_equal, 2, truth)          \
  X(greater, 2, truth)             \
  X(greater_equal, 2, truth)       \
  X(logical_and, 2, truth)         \
  X(logical_or, 2, truth)          \
  X(where, 3, same)

// rsqrt is 1/sqrt; round goes to even; mod has the sign of the divisor; softplus is log(1 + exp(x)); where is c ? a : b;
// maximum and minimum give NaN when either is NaN; comparisons with NaN are false, not_equal true.
enum class Elementwise : uint8_t {
#define PERIGEE_ENTRY(name, arity, result) name,
  PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
};

constexpr int elementwise_arity(Elementwise op) {
  switch (op) {
#define PERIGEE_ENTRY(name, arity, result) \
  case Elementwise::name: return arity;
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
  }
  return 0;
}

constexpr const char* elementwise_name(Elementwise op) {
  switch (op) {
#define PERIGEE_ENTRY(name, arity, result) \
  case Elementwise::name: return #name;
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
  }
  return "";
}

constexpr bool elementwise_gives_truth(Elementwise op) {
  constexpr bool same = false, truth = true;
  switch (op) {
#define PERIGEE_ENTRY(name, arity, result) \
  case Elementwise::name: return result;
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
  }
  return false;
}

}  // namespace perigee
