// One openable description per type of data source, with the files it needs.
#pragma once

#include <map>
#include <string>

#include "src/core/json.h"

namespace perigee {

// Writes files into `folder`. A null description: it needs PERIGEE_DATA, which is not set.
std::map<std::string, Json> source_examples(const std::string& folder);

}  // namespace perigee
