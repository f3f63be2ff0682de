// Numbers of the record format that its reader and its writer share.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace perigee::records::format {

inline constexpr char kMagic[] = "\x89PGR\r\n\x1a\n";  // 8 bytes; the line ends show damage by transfers of text
inline constexpr size_t kHeader = 4096, kTail = 48, kEntry = 32, kAlignment = 64, kMagicBytes = 8;
inline constexpr uint64_t kVersion = 1;
inline constexpr size_t kMostFooter = size_t{64} << 20;

inline uint64_t number_at(const std::byte* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

inline void put_number(std::byte* at, uint64_t value) {
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace perigee::records::format
