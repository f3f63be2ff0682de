// UTF-8 text: whether it is valid, for writers whose readers insist on it, its code points, and what of it a terminal may be sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace perigee {

// Bytes of the well-formed sequence (RFC 3629: shortest form, no surrogates, at most U+10FFFF) that starts at `text[i]`; 0 when there is none.
inline size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
  const auto follows = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second >= 0xA0) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second >= 0x90) return 0;
    return 4;
  }
  return 0;
}

// The code point of the well-formed sequence of `length` bytes that starts at `text[i]`.
inline char32_t utf8_code(std::string_view text, size_t i, size_t length) {
  constexpr unsigned char kFirstBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code = static_cast<unsigned char>(text[i]) & kFirstBits[length];
  for (size_t k = 1; k < length; ++k) code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3F);
  return code;
}

inline void append_utf8(char32_t code, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) put(0xC0 | code >> 6);
  else if (code < 0x10000) put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F));
  else put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
  put(0x80 | (code & 0x3F));
}

// False for control characters, which may steer a terminal.
inline bool is_shown(char32_t code) { return code >= 0x20 && code != 0x7F && (code < 0x80 || code >= 0xA0); }

// `bytes` with everything replaced that is no UTF-8, and without control characters other than newline and tab.
inline std::string clean_text(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = utf8_length(bytes, i);
    if (length == 0) {
      text += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    const bool newline = bytes[i] == '\r' || bytes[i] == '\n';
    if (newline) text += '\n';
    else if (bytes[i] == '\t' || is_shown(utf8_code(bytes, i, length))) text.append(bytes.substr(i, length));
    i += bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n' ? 2 : length;
  }
  return text;
}

// How many characters a terminal shows for it, near enough to line columns up.
inline size_t utf8_width(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

// Its first `width` characters.
inline std::string utf8_prefix(std::string_view text, size_t width) {
  size_t end = 0;
  for (; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && width-- == 0) break;
  return std::string(text.substr(0, end));
}

// A name as a line of output can show it: control characters escaped, blanks and punctuation alone in quotes.
inline std::string printable(std::string_view name) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string shown;
  bool marks_only = true;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 || byte == 0x7F;
    marks_only &= !control && byte < 0x80 && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (c == '\n') shown += "\\n";
    else if (c == '\t') shown += "\\t";
    else if (c == '\r') shown += "\\r";
    else if (control) (shown += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]};
    else shown += c;
  }
  return marks_only ? "'" + shown + "'" : shown;
}

}  // namespace perigee
