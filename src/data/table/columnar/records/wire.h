// Fields of a Protocol Buffers message as they come. Every length is checked against the message's end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace perigee::tables {

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  // The next field: its number, kind (0: `number` of a varint, 1 and 5: `bytes` of eight and four, 2: `bytes`). False at the end, or for damage: ok() tells.
  bool next() {
    if (bytes_.empty()) return false;
    uint64_t key = 0;
    if (!varint(key)) return fail();
    field = key >> 3, kind = static_cast<unsigned>(key & 7);
    uint64_t size = 0;
    if (kind == 0) return varint(number) || fail();
    if (kind == 1) size = 8;
    else if (kind == 5) size = 4;
    else if (kind != 2 || !varint(size)) return fail();
    if (size > bytes_.size()) return fail();
    bytes = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  // A number of a packed field.
  bool varint(uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return false;
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool empty() const { return bytes_.empty(); }
  bool ok() const { return ok_; }

  uint64_t field = 0, number = 0;
  unsigned kind = 0;
  std::string_view bytes = {};

 private:
  bool fail() { return ok_ = false, false; }

  std::string_view bytes_;
  bool ok_ = true;
};

inline float wire_float(std::string_view four) {
  float value = 0;
  std::memcpy(&value, four.data(), sizeof value);
  return value;
}

}  // namespace perigee::tables
