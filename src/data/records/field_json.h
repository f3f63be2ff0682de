// A field of an example as JSON: processes are told so of data that lie elsewhere.
#pragma once

#include "src/core/config.h"
#include "src/data/source.h"

namespace perigee {

Json field_to_json(const Field& field);
// Comes from outside: everything in it is checked. Error(data), or of the kind that `config` has.
Field field_from_json(const Config& config);
// The list of fields under "fields", one to 64 of them.
std::vector<Field> fields_from_json(const Config& config);

}  // namespace perigee
