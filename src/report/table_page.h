// The page of a table: what analyse() found, as one file that loads nothing, in the style of a run's page.
#pragma once

#include <string>

#include "src/core/json.h"

namespace perigee {

std::string table_page(const Json& analysis);

}  // namespace perigee
