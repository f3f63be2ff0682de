// A network as a table: layers, shapes, parameters, memory, arithmetic. What `perigee describe` and the prompt show.
#pragma once

#include <string>
#include <vector>

#include "src/job/job.h"
#include "src/nn/network.h"

namespace perigee {

// The table of a description by describe_network().
std::string network_table(const Json& network);

// A job's name, its training data, the table. The data are opened for their shapes.
std::string job_table(const Job& job);

// "1.5 MiB"
std::string bytes_text(double value);

}  // namespace perigee
