// A job as it would be trained here, for people and programs: what `perigee describe` prints.
#pragma once

#include "cluster/policy/describe_policy.h"
#include "src/core/json.h"
#include "src/job/job.h"

namespace perigee {

class Trainer;

// "name", "data", "network" (describe_network), "batch", "threads", "sub_batch", "memory_bytes", "memory", "effective_batch",
// "steps_per_epoch", "learning_rate", "precision", "averaging" (below), "codec", "placement". On a device that this machine has not got
// the figures are a CPU's, and "memory" says so. Errors as Trainer has them.
Json describe_job(const Job& job);

// describe_policy() and what one exchange sends: "codec", and of a server "exchange_bytes", of fragments "fragments", else "bytes" of the
// busiest of four workers on four hosts by topology, and "inner" of exchanges inside groups. describe_averaging.cpp.
Json describe_averaging(const Policy& policy, const Job& job, Trainer& trainer);

}  // namespace perigee
