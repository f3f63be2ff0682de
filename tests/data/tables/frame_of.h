// Frames from rows as JSON.
#pragma once

#include "src/data/table/frame.h"

namespace perigee::tables {

// A missing cell is null; a time is milliseconds or a text.
inline Frame frame_of(const TableSchema& schema, const Json& rows) {
  Frame frame = empty_frame(schema);
  for (const Json& row : rows.as_array()) {
    for (size_t c = 0; c < schema.columns.size(); ++c) {
      const Json& cell = row.as_array()[c];
      Column& column = frame.columns[c];
      if (cell.is_null()) column.add_missing();
      else if (column.type == Type::time && cell.is_int()) column.add_whole(cell.as_int());
      else if (!add_parsed(schema.columns[c], cell.is_string() ? cell.as_string() : cell.dump(), column)) column.add_missing();
    }
    ++frame.rows;
  }
  return frame;
}

}  // namespace perigee::tables
