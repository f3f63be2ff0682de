#include "src/data/table/reading/csv_rows.h"

namespace perigee::tables {
namespace {

// The loop over lanes becomes vectors.
size_t count_of(std::string_view text, char c) {
  size_t count = 0;
  const char* p = text.data();
  size_t left = text.size();
  while (left >= 32) {
    uint8_t lanes[32] = {};
    for (int i = 0; i < 255 && left >= 32; ++i, p += 32, left -= 32)
      for (int lane = 0; lane < 32; ++lane) lanes[lane] = static_cast<uint8_t>(lanes[lane] + (p[lane] == c));
    for (const uint8_t lane : lanes) count += lane;
  }
  for (; left > 0; ++p, --left) count += *p == c;
  return count;
}

}  // namespace

size_t whole_rows(std::string_view text, char quote) {
  const size_t first = quote != 0 ? text.find(quote) : text.npos;  // often there is none
  bool inside = first != text.npos && count_of(text.substr(first), quote) % 2 != 0;
  for (size_t at = text.size(); at > 0; --at) {
    if (quote != 0 && text[at - 1] == quote) inside = !inside;
    else if (!inside && text[at - 1] == '\n') return at;
  }
  return 0;
}

bool next_row(std::string_view text, const Dialect& dialect, size_t* at, std::vector<std::string>* fields) {
  fields->clear();
  size_t i = *at;
  const bool trims = dialect.trim.value_or(false) && !is_blank(dialect.delimiter);
  for (;;) {
    std::string field;
    while (trims && i < text.size() && is_blank(text[i])) ++i;
    if (dialect.quote != 0 && i < text.size() && text[i] == dialect.quote) {
      for (++i;; ++i) {
        if (i >= text.size()) return false;
        if (text[i] == dialect.quote && (i + 1 >= text.size() || text[i + 1] != dialect.quote)) break;
        if (text[i] == dialect.quote) ++i;
        field += text[i];
      }
      for (++i; i < text.size() && text[i] != dialect.delimiter && text[i] != '\n' && text[i] != '\r'; ++i)
        if (!trims || !is_blank(text[i])) return false;
    } else {
      const size_t begin = i;
      while (i < text.size() && text[i] != dialect.delimiter && text[i] != '\n' && text[i] != '\r') ++i;
      size_t end = i;
      while (trims && end > begin && is_blank(text[end - 1])) --end;
      field = text.substr(begin, end - begin);
      if (dialect.quote != 0 && field.find(dialect.quote) != field.npos) return false;
    }
    fields->push_back(std::move(field));
    if (fields->size() > kMostFields) {
      *at = text.size();
      return true;
    }
    if (i < text.size() && text[i] == dialect.delimiter) {
      ++i;
      continue;
    }
    if (i < text.size()) i += text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n' ? 2 : 1;
    *at = i;
    return true;
  }
}

}  // namespace perigee::tables
