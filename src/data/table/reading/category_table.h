// Categories by a hash of their bytes, for the loop over the cells of CSV.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/reading/decimal.h"

namespace perigee::tables {

class CategoryTable {
 public:
  explicit CategoryTable(const std::vector<std::string>& names) : names_(names) {
    size_t size = 16;
    while (size < names.size() * 3) size *= 2;
    slots_.assign(size, -1);
    for (size_t i = 0; i < names.size(); ++i) {
      size_t at = hash(names[i].data(), names[i].size()) & (size - 1);
      while (slots_[at] >= 0) at = (at + 1) & (size - 1);
      slots_[at] = static_cast<int32_t>(i);
    }
  }
  int64_t find(std::string_view text) const {
    for (size_t at = hash(text.data(), text.size()) & (slots_.size() - 1); slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1))
      if (names_[static_cast<size_t>(slots_[at])] == text) return slots_[at];
    return -1;
  }

 private:
  static size_t hash(const char* p, size_t size) {
    uint64_t h = size * 0x9e3779b97f4a7c15;
    for (; size >= 8; p += 8, size -= 8) h = (h ^ load_eight(p)) * 0xff51afd7ed558ccd, h ^= h >> 32;
    uint64_t last = 0;
    std::memcpy(&last, p, size);
    h = (h ^ last) * 0xff51afd7ed558ccd;
    return h ^ h >> 29;
  }
  const std::vector<std::string>& names_;
  std::vector<int32_t> slots_;
};

}  // namespace perigee::tables
