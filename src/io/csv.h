// Comma-separated text by RFC 4180: quoted fields with doubled quotes and line breaks, LF or CRLF, an optional byte order mark.
// Blanks around unquoted fields do not count; empty lines are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

struct CsvTable {
  std::vector<std::string> header;  // empty when there is none
  int64_t columns = 0, rows = 0;
  std::vector<std::string_view> cells;  // row-major; in `text` or `unescaped`
  std::vector<int64_t> lines;           // of each row's beginning, from 1
  std::string unescaped;                // of fields with doubled quotes

  std::string_view cell(int64_t row, int64_t column) const { return cells[static_cast<size_t>(row * columns + column)]; }
};

// Error(data) with `where` and the line for rows of unequal length, quotes that do not match, and more than 2^31 cells.
// `text` must outlive the table.
CsvTable parse_csv(std::string_view text, const std::string& where, char delimiter, bool header);

// Tells columns of one name apart: those after the first get their number, from 0, behind it: "a", "a_1". Empty names stay. The first name that several
// columns have; empty: none.
std::string tell_apart(std::vector<std::string>& names);
// The warning about it: "two columns are called 'a'; ...".
std::string line_of_equal_names(const std::string& where, const std::string& name);

// `delimiter = ";"` as a hint where the first line has more of another delimiter; else empty.
std::string delimiter_hint(std::string_view text, char delimiter);

// "12", "-1.5e3", "+7": the whole text a finite number.
bool csv_number(std::string_view text, double& value);
// "3,5" as "3.5", where the text is a number with a decimal comma; else empty.
std::string without_decimal_comma(std::string_view text);

}  // namespace perigee
