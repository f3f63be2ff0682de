#include "src/train/device/device_average.h"

#include "kernels/cuda/runtime/step.h"
#include "kernels/dtype_kinds.h"

namespace perigee {

size_t DeviceAverage::bytes_for(const Params& params) {
  return device_bytes(params.block_bytes()) + device_bytes(params.state_bytes().size());
}

DeviceAverage::DeviceAverage(DeviceModel& model, WeightAverage& average) : model_(model), average_(average) {
  const Params& params = model.model().params();
  model.gpu().select();
  parameters_ = model.gpu().allocate(params.block_bytes(), "the average of the weights");
  states_ = model.gpu().allocate(params.state_bytes().size(), "the average of the states");
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const size_t begin = params.state_offset(static_cast<int>(i)), width = dtype_bytes(spec.dtype);
    const int64_t elements = spec.shape.elements();
    if (!is_floating(spec.dtype)) {
      copied_.push_back({states_.data() + begin, model.states() + begin, elements * static_cast<int64_t>(width)});
      continue;
    }
    // The gap between neighbours, where there is one, is zero and stays so.
    const bool joins =
        i > 0 && !averaged_.empty() && averaged_.back().dtype == spec.dtype && params.state_specs()[i - 1].dtype == spec.dtype;
    if (!joins) averaged_.push_back({.begin = begin, .dtype = spec.dtype});
    averaged_.back().elements = static_cast<int64_t>((begin - averaged_.back().begin) / width) + elements;
  }
}

void DeviceAverage::add(double share, const int32_t* stopped) {
  Gpu& gpu = model_.gpu();
  const Params& params = model_.model().params();
  const CudaSteps& steps = *gpu.module().steps;
  gpu.select();
  model_.to_device();
  const auto states = static_cast<int64_t>(params.state_bytes().size());
  if (share == 1) {
    const CudaCommit all[] = {{parameters_.data(), model_.block(), static_cast<int64_t>(params.block_bytes())},
                              {states_.data(), model_.states(), states}};
    steps.commit(all, states > 0 ? 2 : 1, stopped, gpu.queue());
  } else {
    if (newer_ == Newer::host) {
      gpu.upload(parameters_.data(), average_.parameters().data(), average_.parameters().size());
      gpu.upload(states_.data(), average_.states().data(), average_.states().size());
    }
    const auto approach = [&](std::byte* to, const std::byte* from, int64_t elements, Dtype dtype) {
      steps.approach({.from = from, .to = to, .elements = elements, .dtype = dtype, .share = share, .stopped = stopped}, gpu.queue());
    };
    approach(parameters_.data(), model_.block(), params.block_elements(), params.dtype());
    for (const Run& run : averaged_) approach(states_.data() + run.begin, model_.states() + run.begin, run.elements, run.dtype);
    if (!copied_.empty()) steps.commit(copied_.data(), copied_.size(), stopped, gpu.queue());
  }
  gpu.check_queue("the average of the weights");
  newer_ = Newer::device;
}

void DeviceAverage::to_host() {
  if (newer_ != Newer::device) return;
  Gpu& gpu = model_.gpu();
  gpu.select();
  gpu.download(average_.parameters().data(), parameters_.data(), average_.parameters().size());
  gpu.download(average_.states().data(), states_.data(), average_.states().size());
  newer_ = Newer::neither;
}

}  // namespace perigee
