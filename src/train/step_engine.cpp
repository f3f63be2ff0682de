#include "src/train/step_engine.h"

#include <algorithm>

#include "src/train/device/device_engine.h"
#include "src/train/host/host_engine.h"
#include "src/train/vector_engine.h"

namespace perigee {

std::unique_ptr<StepEngine> make_engine(TrainingSetup& training) {
  if (const VectorSource* words = vector_source(*training.source)) return std::make_unique<VectorEngine>(training, *words);
  if (training.options.backend == Backend::cuda) return std::make_unique<DeviceEngine>(training);
  return std::make_unique<HostEngine>(training);
}

void deliver(const TrainingSetup& training, const std::byte* gradient, const GradientTarget& target, GradientReport* report) {
  const BlockMath& math = *training.math;
  const int64_t elements = training.model->params().block_elements();
  if (target.add.empty()) std::copy(gradient, gradient + training.bytes_of(elements), target.to);
  for (size_t i = 0; i < target.add.size(); ++i) math.add(target.add[i], i == 0 ? gradient : target.to, elements, target.to);
  report->finite = report->finite && math.finite(target.to, elements);
  if (!report->finite || report->cancelled || !target.sink) return;
  for (size_t bucket = 0; bucket < training.buckets.size(); ++bucket) target.sink->on_bucket(bucket);
  report->buckets = training.buckets.size();
}

void with_first_batch(const TrainingSetup& training, Loader& loader, int64_t zeros, const std::function<void(const Batch&)>& use) {
  if (!training.source->traits().live && !training.options.unread) {
    use(loader.next());
    return loader.seek(0, 0);
  }
  Batch batch;
  batch.size = zeros;
  batch.ids.resize(static_cast<size_t>(zeros));
  for (const Field& field : training.source->fields()) {
    std::vector<int64_t> dims = field.shape.vector();
    dims.insert(dims.begin(), zeros);
    batch.fields.emplace_back(field.dtype, Shape(dims));
  }
  use(batch);
}

}  // namespace perigee
