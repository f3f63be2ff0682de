// Guesses about a table: the types of columns, the delimiter of fields, and names where it has none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

inline constexpr size_t kRowsLooked = 10'000;  // of a table are looked at

// Whether a cell may be one of a column of the type. Stricter than add_parsed(): 007 is no number.
bool reads_as(Type type, std::string_view text);
// The narrowest type that all the values have.
Type narrowest(const std::vector<std::string_view>& values, const Dialect& dialect);
// The type that takes the place of one that `text` does not fit.
Type wider(Type type, std::string_view text);

char found_delimiter(std::string_view text, const Dialect& dialect, const std::string& path);
// Whether a blank follows each delimiter: then it belongs to that.
bool blanks_follow(std::string_view text, char delimiter);
// Those of the first row, or c0, c1, ...; all different.
std::vector<std::string> column_names(const std::vector<std::string>& first, bool header);

// Where the line ends that begins at `at`: behind its line feed.
size_t line_end(std::string_view text, size_t at);

}  // namespace perigee::tables
