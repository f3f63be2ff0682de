// Whether a job's policy fits a link: of a bandwidth that was given, or as a run measured it.
#pragma once

#include <string>

#include "src/core/json.h"
#include "src/job/job.h"

namespace perigee {

struct LinkQuestion {
  std::string bandwidth, step_time;  // as on the command line; an empty step time is measured on this machine
  std::string folder;                // of a run that may have measured; empty: there is none
};

// Null: nothing was asked and nothing measured. `averaging` is of describe_job().
Json describe_link(const Job& job, const Json& averaging, const LinkQuestion& question);
void print_link(const Json& link);

}  // namespace perigee
