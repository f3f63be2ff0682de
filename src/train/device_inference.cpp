#include "src/train/device_inference.h"

namespace perigee {

DeviceInference::DeviceInference(DeviceModel& model, bool with_loss, std::vector<NetworkInput> fields)
    : model_(model),
      fields_(std::move(fields)),
      set_(model.model(), with_loss ? PlanSet::Kind::inference_with_loss : PlanSet::Kind::inference, Backend::cuda),
      plans_(model, set_, nullptr),
      inputs_(fields_.size()) {}

void DeviceInference::run(const std::vector<const std::byte*>& fields, int64_t count, std::byte* output, std::byte* loss) {
  Gpu& gpu = model_.gpu();
  gpu.select();
  model_.to_device();
  PlanRun& run = plans_.at(count);
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Type& type = fields_[f].type;
    const size_t bytes = static_cast<size_t>(count * type.shape.elements()) * dtype_bytes(type.dtype);
    if (inputs_[f].bytes() < bytes || !inputs_[f].data()) {
      inputs_[f] = {};
      inputs_[f] = gpu.allocate(bytes, "a batch to evaluate");
    }
    gpu.upload(inputs_[f].data(), fields[f], bytes);
    const int index = run.plan().input_index(fields_[f].name);
    if (index >= 0) run.set_input(index, inputs_[f].data());
  }
  run.queue_packs(gpu.queue());
  for (size_t i = 0; i < run.plan().steps().size(); ++i) {
    run.queue_step(i, gpu.queue(), nullptr);
    if (gpu.queue().status != 0) gpu.check_queue(step_name(run.plan().steps()[i]));
  }
  const auto take = [&](const View& view, std::byte* to) {
    gpu.download(to, view.data, static_cast<size_t>(view.elements()) * dtype_bytes(view.dtype));
  };
  take(run.output("output"), output);
  if (loss) take(run.output("loss"), loss);
}

}  // namespace perigee
