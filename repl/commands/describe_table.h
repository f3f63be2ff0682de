// A network as a table: layers, shapes, parameters, memory, arithmetic. What `perigee describe` and the prompt show.
#pragma once

#include <string>
#include <vector>

#include "src/job/job.h"
#include "src/nn/network.h"

namespace perigee {

// Of what describe_network() tells.
std::string network_table(const Json& network);

// Of a job: its name, its training data, the table. The data are opened for their shapes.
std::string job_table(const Job& job);

// "1.5 MiB"
std::string bytes_text(double value);

}  // namespace perigee
