// The lines of `perigee describe` about several workers.
#pragma once

#include "src/core/json.h"

namespace perigee {

void print_averaging(const Json& averaging);  // what describe_averaging() tells

}  // namespace perigee
