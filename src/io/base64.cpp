#include "src/io/base64.h"

#include <cstdint>

#include "src/core/error.h"

namespace perigee {

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) { return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u; };
    const unsigned bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text, const std::string& where) {
  std::string bytes;
  const auto fail = [&](size_t at) {
    throw Error(ErrorKind::data, {.where = where, .what = "this is no base64", .got = "damage at character " + std::to_string(at)});
  };
  size_t size = text.size();
  while (size > 0 && text.size() - size < 2 && text[size - 1] == '=') --size;
  if (text.size() % 4 != 0) fail(text.size());
  bytes.reserve(size / 4 * 3 + 2);
  uint32_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    const char c = text[i];
    uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z') digit = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z') digit = static_cast<uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0' + 52);
    else if (c == '+' || c == '/') digit = c == '+' ? 62 : 63;
    else fail(i);
    bits = bits << 6 | digit;
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - i % 4 * 2) & 0xFF);
  }
  return bytes;
}

}  // namespace perigee
