#include "src/io/hdf5/types.h"

#include <bit>
#include <cmath>

namespace perigee::hdf5 {
namespace {

uint64_t bits_of(const Type& type, const std::byte* element) {
  uint64_t bits = 0;
  for (size_t i = 0; i < type.size; ++i) bits |= std::to_integer<uint64_t>(element[type.big ? type.size - 1 - i : i]) << (8 * i);
  return bits;
}

double half(uint64_t bits) {
  const uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0    ? std::ldexp(static_cast<double>(fraction), -24)
                       : exponent == 31 ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                                        : std::ldexp(static_cast<double>(1024 + fraction), static_cast<int>(exponent) - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

int64_t whole_of(const Type& type, const std::byte* element) {
  const uint64_t bits = bits_of(type, element);
  const auto unused = static_cast<unsigned>(64 - 8 * type.size);
  return type.is_signed && unused > 0 ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits);
}

bool whole_fits(const Type& type, const std::byte* element) { return type.is_signed || type.size < 8 || whole_of(type, element) >= 0; }

double real_of(const Type& type, const std::byte* element) {
  const uint64_t bits = bits_of(type, element);
  if (type.kind != Type::Kind::real) return type.is_signed ? static_cast<double>(whole_of(type, element)) : static_cast<double>(bits);
  if (type.size == 8) return std::bit_cast<double>(bits);
  if (type.size == 4) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return half(bits);
}

std::string_view text_of(const Type& type, const std::byte* element) {
  std::string_view text(reinterpret_cast<const char*>(element), type.size);
  if (type.padding == '\0') return text.substr(0, text.find('\0'));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace perigee::hdf5
