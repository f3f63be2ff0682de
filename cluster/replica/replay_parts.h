// The parts that both kinds of replay need of a record.
#pragma once

#include <string>

#include "src/core/json.h"

namespace perigee {

// Examples that the coordinator sent are read here: the same ones.
Json with_local_data(Json job);
// Error(usage): this machine computes with other instructions, and cannot give the same bits.
void check_recorded_isa(const std::string& recorded);

}  // namespace perigee
