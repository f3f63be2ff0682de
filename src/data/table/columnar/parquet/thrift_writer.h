// Thrift's compact protocol as Parquet's footer needs it: structs, lists, numbers, texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee::tables::parquet {

class ThriftWriter {
 public:
  std::string bytes;

  void begin() { last_.push_back(0); }
  void end() {
    bytes += '\0';
    last_.pop_back();
  }
  void i32(int16_t field, int64_t value) {
    head(field, 5);
    zigzag(value);
  }
  void i64(int16_t field, int64_t value) {
    head(field, 6);
    zigzag(value);
  }
  void text(int16_t field, std::string_view value) {
    head(field, 8);
    plain_text(value);
  }
  // A struct in a field: begin() and end() stand around its own fields.
  void structure(int16_t field) {
    head(field, 12);
    begin();
  }
  // So many elements of a type (5: i32, 8: text, 12: struct) follow: plain_i32(), plain_text(), or begin() to end().
  void list(int16_t field, size_t count, uint8_t type) {
    head(field, 9);
    bytes += static_cast<char>((count < 15 ? count << 4 : 0xf0) | type);
    if (count >= 15) varint(count);
  }
  void plain_i32(int64_t value) { zigzag(value); }
  void plain_text(std::string_view value) {
    varint(value.size());
    bytes += value;
  }

 private:
  void head(int16_t field, uint8_t type) {
    const int delta = field - last_.back();
    if (delta > 0 && delta < 16) bytes += static_cast<char>(delta << 4 | type);
    else bytes += static_cast<char>(type), zigzag(field);
    last_.back() = field;
  }
  void zigzag(int64_t value) { varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }

  std::vector<int16_t> last_ = {};
};

}  // namespace perigee::tables::parquet
