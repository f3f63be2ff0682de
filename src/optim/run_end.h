// A number that training changes by a schedule, as evaluations take it: as it is behind the run, so that all epochs are judged alike. Networks keep
// schedules as they are described.
#pragma once

#include <string>

#include "src/core/json.h"

namespace perigee {

// At least 0. Error(model) where the description is no schedule. Defined in schedule.cpp.
double at_run_end(const Json& schedule, const std::string& where);

}  // namespace perigee
