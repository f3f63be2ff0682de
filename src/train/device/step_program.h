// The pieces of a step on a GPU: a list in an order that is right for one stream, each piece with the memory that it reads and writes
// (src/device/device_work.h). As a whole, or in sections: what one of several GPUs does between two sums over them, and what one alone does
// until a bucket of its gradient is complete.
#pragma once

#include <string>
#include <vector>

#include "src/device/device_work.h"
#include "src/train/device/device_check.h"
#include "src/train/device/device_rows.h"
#include "src/train/device/device_update.h"
#include "src/train/device/resident_data.h"
#include "src/train/device/step_buffers.h"

namespace perigee {

class StepProgram {
 public:
  // All must outlive this; `data` null: batches are sent; `rows` null: they carry nothing. The target is a class label or not by its `target`
  // field.
  StepProgram(DeviceModel& model, StepBuffers& buffers, DevicePlans& plans, DeviceUpdate& update, const ResidentData* data,
              const DeviceRows* rows, const Field& target);

  // From now on every kernel of a step is compared with the reference; Error(model) at the first that disagrees.
  void check_kernels() { checked_ = true; }
  bool checked() const { return checked_; }
  void cut(std::vector<Optimizer::Range> buckets) { buckets_ = std::move(buckets); }

  std::vector<DeviceWork> whole(const StepSlot& slot, const StepWork& work);
  // One for each bucket of the gradient, after which the bucket's sum is complete; of several GPUs also the rest of the step and, where there
  // are states, what comes of their mean.
  std::vector<std::vector<DeviceWork>> sections(const StepSlot& slot, const StepWork& work);
  size_t count_sections(const StepWork& work) const;
  // The commit of the states that a plan assigned, unless `skip` says otherwise.
  void add_commits(const StepWork& work, const int32_t* skip, std::vector<DeviceWork>* pieces);
  // This GPU's part of the mean of the states over the team, or what came of it.
  void add_states(bool mean, const StepWork& work, const int32_t* skip, std::vector<DeviceWork>* pieces);

  // For a run outside a graph: binds the plan's inputs to the slot's batch, and queues the batch's gathering and the scale of the loss.
  void bind_inputs(PlanRun& run, const StepSlot& slot, const StepWork& work);
  void queue_gather(const PlanRun& run, const StepSlot& slot, const StepWork& work);
  void queue_seeds(const StepSlot& slot, const StepWork& work);

 private:
  // step_pieces.cpp
  std::vector<std::byte*> gathered_by(const Plan& plan) const;
  CudaScaleCall scaling(const StepSlot& slot, const StepWork& work) const;
  void add_gather(const PlanRun& run, const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces);
  void add_scale(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces);
  void add_compute(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces);
  std::shared_ptr<DeviceCheck> check_of(PlanRun& run, const StepSlot& slot, const StepWork& work);
  void add_judge(const StepSlot& slot, const StepWork& work, const PlanRun& run, std::vector<DeviceWork>* pieces);
  // step_sections.cpp
  void add_empty_part(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces);
  void add_settle(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces);

  DeviceModel& model_;
  Gpu& gpu_;
  StepBuffers& buffers_;
  DevicePlans& plans_;
  DeviceUpdate& update_;
  const ResidentData* data_;
  const DeviceRows* rows_;
  std::vector<std::string> input_names_;  // the plan's, by field
  bool labels_ = false;                   // the target is a class label
  bool checked_ = false;
  std::string unchecked_;  // what has been told of
  std::vector<Optimizer::Range> buckets_;
};

}  // namespace perigee
