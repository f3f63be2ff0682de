// How a cluster's events look to a person.
#pragma once

#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

// One line per worker under a heading; at most `most`, then how many more. Each line ends with a newline.
std::string workers_table(const Json::Array& workers, size_t most = 1000);
// "2 workers: host/0 20,345/s, host/1 19,870/s": for logs.
std::string workers_line(const Json::Array& workers);
// "averages every 32 steps, 81 % of the time training, replicas 1.40 apart": what of it is known; empty: nothing.
std::string averaging_line(const Json& event);
// A fault or a change of membership on one line: what happened to whom, why, and what was done. Empty for events that have no line.
std::string cluster_event_line(const Json& event);

}  // namespace perigee
