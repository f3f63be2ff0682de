// The columns of a table that another part of the program describes by an ArrowSchema. Structs become columns of their own, "place.city".
#pragma once

#include <string>
#include <vector>

#include "src/data/table/columnar/arrow/arrow_schema.h"
#include "src/data/table/columnar/arrow/perigee_arrow.h"

namespace perigee::tables::arrow {

struct Leaf {
  ArrowField field;          // its name is that of the column
  std::vector<size_t> path;  // which child to take, from the batch on
};

// Error(data) for a schema that is none, and for one of no table. A column of a type that a table has not is refused when it is read
// (ArrowField::refusal).
std::vector<Leaf> leaves_of(const ArrowSchema& schema, const std::string& where);

}  // namespace perigee::tables::arrow
