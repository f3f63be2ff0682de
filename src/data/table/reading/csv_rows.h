// Where rows of CSV begin and end, and the fields of one as texts: for what looks at a file before it is parsed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

inline std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// The bytes of `text` that are whole rows, up to its last line break outside quotes; 0: there is none.
size_t whole_rows(std::string_view text, char quote);

// Fields of one row, unquoted; at: the begin of the row and then that of the next. False: quotes do not match.
constexpr size_t kMostFields = 1 << 16;  // one more than that, and the row is not read on
bool next_row(std::string_view text, const Dialect& dialect, size_t* at, std::vector<std::string>* fields);

}  // namespace perigee::tables
