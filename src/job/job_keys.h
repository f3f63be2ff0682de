// Names that a job's description knows, for completion.
#pragma once

#include <string>
#include <vector>

namespace perigee {

// Of the top level (part "") and of "data"; of other parts whoever reads them knows their keys.
std::vector<std::string> job_keys(const std::string& part);

}  // namespace perigee
