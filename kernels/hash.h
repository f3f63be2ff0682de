#pragma once

#include <cstdint>
#include <string_view>

namespace perigee {

// FNV-1a (Fowler, Noll, Vo): short texts to 64 bits, the same on every machine. `basis` gives another hash of the same text.
constexpr uint64_t fnv1a(std::string_view text, uint64_t basis = 0xcbf29ce484222325u) {
  for (const char c : text) basis = (basis ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return basis;
}

}  // namespace perigee
