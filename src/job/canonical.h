// One way to write the same description, so that a model's file has the same bytes in whatever language its job was written.
#pragma once

#include "src/core/json.h"

namespace perigee {

// A part of a job with its keys in a fixed order, without positions and nulls, and with whole numbers as integers.
Json canonical_part(const Json& part);

}  // namespace perigee
