// Runs each kernel of a step on a device beside the reference kernel on the host, on the very operands, and compares: `--device check:cuda,ref`.
// Everything is fetched and waited for, so it is slow; it finds which kernel is wrong on which data.
#pragma once

#include <vector>

#include "src/device/gpu.h"
#include "src/graph/plan_check.h"

namespace perigee {

class DeviceCheck {
 public:
  // `step` is the host's, its example ids too. Both the device and the run must outlive this.
  DeviceCheck(Gpu& gpu, PlanRun& run, const StepInfo& step);

  // Queues step `index` of the plan and waits for it; `step` is the device's. Error(model) where the results disagree: layer, op, kernel, how far.
  void run_step(size_t index, CudaQueue& queue, const StepInfo* step);

  const std::string& unchecked() const { return checker_.unchecked(); }

 private:
  // Views of the host on copies of what the device's views show, in `copies`.
  std::vector<View> fetch(const View* views, int count, std::vector<std::vector<std::byte>>* copies);

  Gpu& gpu_;
  PlanRun& run_;
  StepInfo step_;
  PlanChecker checker_;
};

}  // namespace perigee
