// Numbers as Arrow's buffers have them, whether these lie in a file or in another program's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "src/data/table/columnar/arrow/arrow_schema.h"
#include "src/data/table/columnar/column_values.h"
#include "src/io/file.h"

namespace perigee::tables::arrow {

// The value with this number in `bytes`, which may lie at any address.
template <class T>
T value_at(std::span<const std::byte> bytes, int64_t number) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(number) * sizeof value, sizeof value);
  return value;
}

inline int64_t whole_at(std::span<const std::byte> bytes, int64_t width, bool is_signed, int64_t number) {
  switch (width) {
    case 8: return is_signed ? int64_t{value_at<int8_t>(bytes, number)} : int64_t{value_at<uint8_t>(bytes, number)};
    case 16: return is_signed ? int64_t{value_at<int16_t>(bytes, number)} : int64_t{value_at<uint16_t>(bytes, number)};
    case 32: return is_signed ? int64_t{value_at<int32_t>(bytes, number)} : int64_t{value_at<uint32_t>(bytes, number)};
    default: return value_at<int64_t>(bytes, number);
  }
}

inline double real_at(std::span<const std::byte> bytes, int64_t width, int64_t number) {
  if (width == 16) return half_value(as_text(bytes.subspan(static_cast<size_t>(number) * 2, 2)));
  return width == 32 ? static_cast<double>(value_at<float>(bytes, number)) : value_at<double>(bytes, number);
}

inline double decimal_at(std::span<const std::byte> bytes, int64_t width, int64_t scale, int64_t number) {
  const auto size = static_cast<size_t>(width / 8);
  std::string big(as_text(bytes.subspan(static_cast<size_t>(number) * size, size)));
  std::reverse(big.begin(), big.end());
  return decimal_value(big, scale);
}

// Bits of a value in its buffer.
inline uint64_t width_of(const ArrowField& field) {
  switch (field.kind) {
    case Kind::boolean: return 1;
    case Kind::date: return field.unit == 0 ? 32 : 64;
    case Kind::timestamp:
    case Kind::duration: return 64;
    case Kind::fixed_binary: return 8 * static_cast<uint64_t>(field.width);
    default: return static_cast<uint64_t>(field.width);
  }
}

inline int64_t milliseconds_of(const ArrowField& field, int64_t value) {
  if (field.kind == Kind::date) return field.unit == 0 ? value * 86'400'000 : value;
  switch (field.unit) {
    case 0: return std::clamp<int64_t>(value, INT64_MIN / 1000, INT64_MAX / 1000) * 1000;
    case 1: return value;
    case 2: return floor_div(value, 1000);
    default: return floor_div(value, 1'000'000);
  }
}

}  // namespace perigee::tables::arrow
