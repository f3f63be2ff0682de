// The update on a GPU: norms of gradients, the rule, constraints, as src/optim/optimizer.h has them and with the same bits. Scalars that
// change from step to step (learning rates) come from an image in the device's memory, which the host writes anew for each step.
#pragma once

#include <vector>

#include "src/device/device_work.h"
#include "src/model/device/device_model.h"
#include "src/optim/optimizer.h"

namespace perigee {

class DeviceUpdate {
 public:
  // Error(model) where the device has no kernel of the rule. `scaled`: of gradients in f16, see add().
  DeviceUpdate(DeviceModel& model, const Optimizer& optimizer, std::byte* gradient, bool scaled);

  // Known before there is a device: the scalars, and what the update takes beside parameters, gradients and slots.
  static size_t image_bytes_for(const Optimizer& optimizer, bool scaled);
  static size_t bytes_for(const Params& params, const Optimizer& optimizer, size_t slots);
  size_t image_bytes() const { return sizeof(CudaUpdate) + windows_.size() * (scaled_ ? 2 : 1) * sizeof(CudaUpdateWindow); }
  // Writes the parameters of Optimizer::begin_step(), where so many steps were known to be skipped.
  void write_image(std::byte* to, int64_t skipped);
  // Adds an update's pieces. `image` is the device's; the norm goes into `record`. With `scaling` nothing happens unless the gradient is
  // finite.
  void add(CudaUpdate* image, CudaStepRecord* record, const CudaScaleCall* scaling, std::vector<DeviceWork>* pieces);
  DeviceWork end_of_scaling(CudaScaleCall call) const;
  size_t bytes() const;

 private:
  struct Bound {  // of a constraint
    CudaConstraint call;
    GpuMemory starts, members;
  };
  void prepare_norms();
  void prepare_constraints();
  GpuMemory on_device(const void* values, size_t bytes);

  DeviceModel& model_;
  const Optimizer& optimizer_;
  std::byte* gradient_;
  const bool scaled_;
  std::vector<UpdateParams> if_skipped_;  // by window of the optimiser
  std::vector<size_t> windows_;           // that train
  const Kernel* kernel_ = nullptr;
  std::vector<View> views_;  // gradient, parameters, slots
  GpuMemory scratch_, groups_, pieces_, sums_;
  CudaNormCall norms_;
  std::vector<Bound> constraints_;
};

}  // namespace perigee
