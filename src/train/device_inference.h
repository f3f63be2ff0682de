// A model forward on a GPU: what Inference is on the host.
#pragma once

#include <string>
#include <vector>

#include "src/train/device_model.h"

namespace perigee {

class DeviceInference {
 public:
  // `fields`: names and types of what the plan reads, in the order of run(). `model` must outlive this.
  DeviceInference(DeviceModel& model, bool with_loss, std::vector<NetworkInput> fields);

  // Writes `count` rows of the output and of the losses (null: none), of the plan's element types, contiguous.
  void run(const std::vector<const std::byte*>& fields, int64_t count, std::byte* output, std::byte* loss);

 private:
  DeviceModel& model_;
  std::vector<NetworkInput> fields_;
  PlanSet set_;
  DevicePlans plans_;
  std::vector<GpuMemory> inputs_;  // by field
};

}  // namespace perigee
