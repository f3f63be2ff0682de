// The facts about a run that its log does not have and its page shows: the network's layers and where it was trained.
#pragma once

#include "src/core/json.h"
#include "src/train/trainer.h"

namespace perigee {

// {"layers": describe_network(), "environment": {"host", "system", "processor", "cores", "memory_bytes", "instructions", "threads", "device",
// "seed", "version", "started"}}; an evaluation is added as "evaluation" (Evaluator::details).
Json run_details(Trainer& trainer);

}  // namespace perigee
