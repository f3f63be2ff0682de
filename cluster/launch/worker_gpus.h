// How many GPUs one worker process trains on: where gradients meet in each step, "devices" of them, which add up among themselves what they
// have before anything goes over the network; else one, and each GPU is a worker of its own.
#pragma once

#include <string>

#include "src/core/json.h"

namespace perigee {

// Error(model) when the job's "averaging" or "devices" cannot be read.
int gpus_of_worker(const Json& job, const std::string& where);
// Parts of "averaging" that do not apply between GPUs of one process, which add up float32: "codec 'int4'", "its outer step".
std::string only_between_processes(const Json& job, const std::string& where);
// Says so where a job is trained by one process on several GPUs.
void warn_of_gpus_in_one_process(const Json& job, const std::string& where);

}  // namespace perigee
