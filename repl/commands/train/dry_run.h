// `perigee train --dry-run`: everything that a run would do, once and in small, without a run folder.
#pragma once

#include "src/job/job.h"
#include "src/run/session.h"

namespace perigee {

// Opens all data, builds the network, makes steps on the first batches, judges by some examples of each part, and tells memory and times.
// `session.out` is a folder that would be made, `session.resume` what would be continued; `runs`: how often the job would be trained.
// Error of whatever a run would fail with.
Json dry_run(const Job& job, SessionOptions session, int64_t runs);

// The same for people.
std::string dry_run_text(const Json& result);

}  // namespace perigee
