// Cells of files that give each cell a type and not each column: SQLite, spreadsheets, records. A column gets the narrowest type that holds all
// that it has.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/data/table/frame.h"

namespace perigee::tables {

struct Cell {
  enum class Kind : uint8_t { none, whole, real, text, boolean, time };
  Kind kind = Kind::none;
  int64_t whole = 0;  // also 0 or 1, and milliseconds
  double real = 0;
  std::string_view text = {};
};

// Which kinds of cells a column has.
class KindsSeen {
 public:
  void add(Cell::Kind kind) { seen_ |= static_cast<uint8_t>(1u << static_cast<unsigned>(kind)); }
  bool has(Cell::Kind kind) const { return (seen_ & 1u << static_cast<unsigned>(kind)) != 0; }
  bool only(Cell::Kind kind) const { return (seen_ | 1u) == (1u | 1u << static_cast<unsigned>(kind)); }
  // `nothing` where no cell has a value.
  Type type(Type nothing = Type::text) const;

 private:
  uint8_t seen_ = 0;
};

// Adds the cell to a column of a type that holds it: numbers become texts in a column of texts.
void add_cell(const Cell& cell, Column& column);

}  // namespace perigee::tables
