#include "repl/editor/text.h"

#include "src/core/utf8.h"

namespace perigee {
namespace {

struct Range {
  char32_t first, last;
};

// Unicode's general categories Mn, Me, Cf, as far as keyboards make them.
constexpr Range kCombining[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A},  {0x064B, 0x065F},
                                {0x06D6, 0x06DC}, {0x0900, 0x0902}, {0x093C, 0x093C}, {0x0941, 0x0948},  {0x094D, 0x094D},
                                {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},  {0x1DC0, 0x1DFF},
                                {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20FF},  {0x3099, 0x309A},
                                {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};
// East Asian Width W and F, and emoji that terminals show as wide.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},   {0x26A1, 0x26A1},
                           {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},   {0x274C, 0x274C},   {0x2753, 0x2755},
                           {0x2795, 0x2797},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
                           {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
                           {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18CFF},
                           {0x1B000, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F19A}, {0x1F200, 0x1F320},
                           {0x1F32D, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F7E0, 0x1F7EB}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};

template <size_t Count>
bool in(const Range (&ranges)[Count], char32_t code) {
  for (const Range& range : ranges)
    if (code <= range.last) return code >= range.first;
  return false;
}

bool is_word(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z', digit = byte >= '0' && byte <= '9';
  return byte >= 0x80 || byte == '_' || letter || digit;
}

char32_t code_at(std::string_view text, size_t at, size_t* length) {
  *length = utf8_length(text, at);
  if (*length != 0) return utf8_code(text, at, *length);
  *length = 1;
  return 0xFFFD;
}

}  // namespace

int column_width(char32_t code) {
  if (code < 0x300) return 1;
  return in(kCombining, code) ? 0 : in(kWide, code) ? 2 : 1;
}

size_t text_columns(std::string_view text) {
  size_t columns = 0, length = 0;
  for (size_t at = 0; at < text.size(); at += length) columns += static_cast<size_t>(column_width(code_at(text, at, &length)));
  return columns;
}

size_t next_character(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  size_t length = 0;
  code_at(text, at, &length);
  for (at += length; at < text.size(); at += length)
    if (column_width(code_at(text, at, &length)) > 0) break;
  return at;
}

size_t previous_character(std::string_view text, size_t at) {
  size_t length = 0;
  while (at > 0) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    if (column_width(code_at(text, at, &length)) > 0) break;
  }
  return at;
}

size_t next_word(std::string_view text, size_t at) {
  while (at < text.size() && !is_word(text, at)) ++at;
  while (at < text.size() && is_word(text, at)) ++at;
  return at;
}

size_t previous_word(std::string_view text, size_t at) {
  while (at > 0 && !is_word(text, at - 1)) --at;
  while (at > 0 && is_word(text, at - 1)) --at;
  return at;
}

size_t line_begin(std::string_view text, size_t at) {
  const size_t newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

size_t line_end(std::string_view text, size_t at) {
  const size_t newline = text.find('\n', at);
  return newline == std::string_view::npos ? text.size() : newline;
}

size_t at_column(std::string_view text, size_t begin, size_t column) {
  const size_t end = line_end(text, begin);
  size_t at = begin;
  for (size_t here = 0; at < end;) {
    const size_t next = next_character(text, at);
    here += text_columns(text.substr(at, next - at));
    if (here > column) break;
    at = next;
  }
  return at;
}

}  // namespace perigee
