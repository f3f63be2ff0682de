#include "kernels/convert.h"

#include <limits>
#include <type_traits>

#include "kernels/half.h"

namespace perigee {
namespace {

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};

// The type that computes with an element: itself, or float for a 16-bit float.
float load(F16 x) { return float_from_f16(x.bits); }
float load(Bf16 x) { return float_from_bf16(x.bits); }
uint8_t load(Boolean x) { return x.value != 0; }
template <class T>
T load(T x) {
  return x;
}

template <class To, class From>
void store(From x, To& to) {
  if constexpr (std::is_same_v<To, F16>) {
    to.bits = f16_from_float(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    to.bits = bf16_from_float(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Boolean>) {
    to.value = x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^63 and its like are exact as floating point, the integer's maximum is not.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    to = x != x ? To{0} : x < low ? std::numeric_limits<To>::min() : x >= above ? std::numeric_limits<To>::max() : static_cast<To>(x);
  } else {
    to = static_cast<To>(x);
  }
}

template <class From, class To>
void convert_typed(const void* from, void* to, int64_t n) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) store(load(source[i]), target[i]);
}

template <class From>
void convert_from(const void* from, Dtype to_type, void* to, int64_t n) {
  switch (to_type) {
    case Dtype::f32: return convert_typed<From, float>(from, to, n);
    case Dtype::f64: return convert_typed<From, double>(from, to, n);
    case Dtype::f16: return convert_typed<From, F16>(from, to, n);
    case Dtype::bf16: return convert_typed<From, Bf16>(from, to, n);
    case Dtype::i32: return convert_typed<From, int32_t>(from, to, n);
    case Dtype::i64: return convert_typed<From, int64_t>(from, to, n);
    case Dtype::u8: return convert_typed<From, uint8_t>(from, to, n);
    case Dtype::boolean: return convert_typed<From, Boolean>(from, to, n);
  }
}

}  // namespace

void convert(Dtype from_type, const void* from, Dtype to_type, void* to, int64_t n) {
  switch (from_type) {
    case Dtype::f32: return convert_from<float>(from, to_type, to, n);
    case Dtype::f64: return convert_from<double>(from, to_type, to, n);
    case Dtype::f16: return convert_from<F16>(from, to_type, to, n);
    case Dtype::bf16: return convert_from<Bf16>(from, to_type, to, n);
    case Dtype::i32: return convert_from<int32_t>(from, to_type, to, n);
    case Dtype::i64: return convert_from<int64_t>(from, to_type, to, n);
    case Dtype::u8: return convert_from<uint8_t>(from, to_type, to, n);
    case Dtype::boolean: return convert_from<Boolean>(from, to_type, to, n);
  }
}

}  // namespace perigee
