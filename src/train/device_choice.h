// What a job's "device" and --device say: "cpu", "ref", "cuda", "cuda:1", "auto" (a GPU where there is one, else the CPU), "check:cpu,ref",
// "check:cuda,ref" (each kernel beside the reference).
#pragma once

#include <string>

#include "src/io/json.h"
#include "src/train/trainer.h"

namespace perigee {

// Error(usage) when there is no such device, with `where` in front. Writes backend, device and check. `worker`: of several on this machine,
// counted from 0; "auto" and "cuda" share out the GPUs among them.
void choose_device(const std::string& device, const std::string& where, int worker, TrainerOptions* options);

// The job's "device"; "cpu" when it names none.
std::string device_of(const Json& job);

}  // namespace perigee
