#include "src/data/table/columnar/untyped.h"

#include <charconv>

#include "src/data/table/time_text.h"

namespace perigee::tables {

Type KindsSeen::type(Type nothing) const {
  using enum Cell::Kind;
  const unsigned values = seen_ >> 1;
  if (values == 0) return nothing;
  if (only(boolean)) return Type::boolean;
  if (only(time)) return Type::time;
  if (only(whole)) return Type::integer;
  if (has(text) || has(boolean) || has(time)) return Type::text;
  return Type::real;
}

void add_cell(const Cell& cell, Column& column) {
  using enum Cell::Kind;
  if (cell.kind == none) return column.add_missing();
  if (column.type == Type::real) return column.add_real(cell.kind == real ? cell.real : static_cast<double>(cell.whole));
  if (column.type != Type::text) return column.add_whole(cell.whole);
  if (cell.kind == text) return column.add_text(cell.text);
  if (cell.kind == boolean) return column.add_text(cell.whole != 0 ? "true" : "false");
  if (cell.kind == time) {
    std::string written;
    append_time(cell.whole, "", written);
    return column.add_text(written);
  }
  char digits[40];
  const auto end = cell.kind == real ? std::to_chars(digits, digits + sizeof digits, cell.real)
                                     : std::to_chars(digits, digits + sizeof digits, cell.whole);
  column.add_text(std::string_view(digits, static_cast<size_t>(end.ptr - digits)));
}

}  // namespace perigee::tables
