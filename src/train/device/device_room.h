// How the memory of GPUs is shared out among what a job's training takes of it: planned before anything is taken, and explained when there is
// not enough.
#pragma once

#include <optional>

#include "src/device/gpu_group.h"
#include "src/train/device/device_memory.h"
#include "src/train/training_setup.h"

namespace perigee {

// One GPU's share of a step.
struct DeviceShare {
  int64_t examples = 0, gpus = 1;
  bool copied = false;  // sums over the GPUs are copies between them
};
DeviceShare share_of(const GpuGroup& gpus, int64_t batch);

// Null for either set of plans: what does not depend on it.
DeviceMemory plan_device(const TrainingSetup& training, PlanSet* plans, PlanSet* evaluation, const DeviceShare& share, bool resident);
// `resident`: whether the data set lies on the device; empty: it does if it fits beside the rest.
DeviceMemory planned_device_memory(const TrainingSetup& training, const DeviceShare& share, std::optional<bool> resident);
// As one of so many GPUs, of which there is none here.
DeviceMemory planned_device_memory(const TrainingSetup& training, int64_t gpus);

struct DeviceRoom {
  DeviceMemory need;    // without the data set
  size_t data_set = 0;  // bytes that are left to it
};
// Sets what activations may take, and gives what is left to the data set. All is free but what others have, on the GPU that has least.
DeviceRoom share_out(const TrainingSetup& training, GpuGroup& gpus, PlanSet& plans, PlanSet& evaluation);

// Says what is largest and which batch fits, by plans, on the GPU that has least; an error of another kind, or of before there are GPUs,
// as it is.
Error no_room(const TrainingSetup& training, GpuGroup* gpus, const Error& error, int64_t examples);

}  // namespace perigee
