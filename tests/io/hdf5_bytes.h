// HDF5 files made byte by byte: a superblock, what a test puts at kRest, and the header of the root.
#pragma once

#include <cstdint>
#include <string>

namespace perigee::hdf5_bytes {

inline constexpr uint64_t kRest = 48, kNone = ~uint64_t{0};

inline std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

inline std::string message(unsigned type, const std::string& content, unsigned flags = 0) {
  return little(type, 2) + little(content.size(), 2) + little(flags, 4) + content;
}

inline std::string header(const std::string& messages) {
  return little(1, 4) + little(1, 4) + little(messages.size(), 4) + little(0, 4) + messages;
}

inline std::string file_of_root(const std::string& root, const std::string& rest = "") {
  using namespace std::string_literals;
  return "\x89HDF\r\n\x1a\n"s + little(2, 1) + little(8, 1) + little(8, 1) + '\0' + little(0, 8) + little(kNone, 8) + little(0, 8) +
         little(kRest + rest.size(), 8) + little(0, 4) + rest + root;
}

// The root has these messages.
inline std::string file_of(const std::string& messages, const std::string& rest = "") { return file_of_root(header(messages), rest); }

}  // namespace perigee::hdf5_bytes
