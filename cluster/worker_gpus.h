// How many GPUs one worker process trains on: where gradients meet in each step, "devices" of them, which add up among themselves what they
// have before anything goes over the network; else one, and each GPU is a worker of its own.
#pragma once

#include <string>

#include "src/io/json.h"

namespace perigee {

// Error(model) when the job's "averaging" or "devices" cannot be read.
int gpus_of_worker(const Json& job, const std::string& where);

}  // namespace perigee
