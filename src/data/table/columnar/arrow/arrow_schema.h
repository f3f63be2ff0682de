// Fields of an Arrow schema and how many buffers each takes.
#pragma once

#include <string>
#include <vector>

#include "src/data/table/columnar/arrow/flatbuffer.h"
#include "src/data/table/frame.h"

namespace perigee::tables::arrow {

// As Schema.fbs numbers them.
enum class Kind : uint8_t {
  none,
  null,
  integer,
  real,
  binary,
  utf8,
  boolean,
  decimal,
  date,
  time,
  timestamp,
  interval,
  list,
  structure,
  choice,
  fixed_binary,
  fixed_list,
  map,
  duration,
  large_binary,
  large_utf8,
  large_list,
  run_end,
  binary_view,
  utf8_view,
  list_view,
  large_list_view
};

struct ArrowField {
  std::string name;
  Kind kind = Kind::none;
  int64_t width = 0;  // bits of a number; bytes of fixed binaries; items of fixed lists
  bool is_signed = true;
  int64_t unit = 0, scale = 0;
  bool dense = false;        // of a choice (union)
  int64_t dictionary = -1;   // its id; the kind is then that of the dictionary's values
  int64_t index_width = 32;  // of places in the dictionary, and whether they have a sign
  bool index_signed = true;
  std::vector<ArrowField> children;
  Type type = Type::integer;
  std::string refusal;
};

ArrowField read_field(const FlatTable& field, int depth = 0);
// Its type in a table, or why it has none, once all else is known.
void finish_field(ArrowField& field);
// Buffers and nodes of the field itself, without its children. Views have more: as many as the batch says.
size_t buffers_of(const ArrowField& field, int16_t version);
bool is_view(Kind kind);

}  // namespace perigee::tables::arrow
