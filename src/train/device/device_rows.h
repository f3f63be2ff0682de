// Values that rows carry from step to step (src/nn/carried.h), on one GPU: where a step's plan reads it, and what takes its place when the step is done.
// The addresses stay, so that captured graphs may know them. Of several GPUs each has all rows and uses its own.
#pragma once

#include <memory>
#include <vector>

#include "src/device/device_work.h"
#include "src/device/gpu.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {

class DeviceRows {
 public:
  DeviceRows(Gpu& gpu, const std::vector<CarriedSpec>& specs, int64_t rows);
  static size_t bytes_for(const std::vector<CarriedSpec>& specs, int64_t rows);

  void bind(PlanRun& run, int64_t first) const;  // inputs of a plan that begins with row `first`
  // Adds what the plan computed, as copies to where the next step reads it.
  void add_commits(const PlanRun& run, int64_t first, StepAccess* access, std::vector<CudaCommit>* commits) const;
  void clear(int64_t first, int64_t count);  // queued
  // Waits.
  void to_host(int64_t first, int64_t count, CarriedRows& rows);
  void to_device(const CarriedRows& rows);
  size_t bytes() const;

 private:
  size_t row_bytes(size_t i) const;

  Gpu& gpu_;
  CarriedLayout layout_;
  std::vector<GpuMemory> now_;
};

}  // namespace perigee
