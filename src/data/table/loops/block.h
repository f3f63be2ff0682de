// Shared by loops over columns: how many rows are worked on at once, and eight bytes of a text as a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perigee::tables {

inline constexpr size_t kBlockRows = 2048;

inline uint64_t load_eight(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

}  // namespace perigee::tables
