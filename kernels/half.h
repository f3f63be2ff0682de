// Conversions between f32 and the 16-bit storage types; to 16 bits rounds to nearest even.
// `static`, so that no copy compiled for a newer instruction set can stand in for one on an older machine; `constexpr`, so that nvcc may
// call it in device code.
#pragma once

#include <cstdint>

namespace perigee {

[[maybe_unused]] static constexpr float float_from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

[[maybe_unused]] static constexpr uint32_t bits_from_float(float x) { return __builtin_bit_cast(uint32_t, x); }

[[maybe_unused]] static constexpr float float_from_bf16(uint16_t h) { return float_from_bits(uint32_t{h} << 16); }

[[maybe_unused]] static constexpr uint16_t bf16_from_float(float x) {
  const uint32_t bits = bits_from_float(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

[[maybe_unused]] static constexpr float float_from_f16(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  const uint32_t rest = uint32_t{h & 0x7fffu};
  if (rest >= 0x7c00u) return float_from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  // Moving exponent and mantissa up leaves the exponent 112 too small; the product is exact, also for subnormal numbers.
  const float magnitude = float_from_bits(rest << 13) * 0x1p112f;
  return float_from_bits(sign | bits_from_float(magnitude));
}

[[maybe_unused]] static constexpr uint16_t f16_from_float(float x) {
  const uint32_t bits = bits_from_float(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65520 or more
  if (magnitude < 0x38800000u) {                                               // subnormal: let the adder round
    const float shifted = float_from_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_from_float(shifted) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
}

}  // namespace perigee
