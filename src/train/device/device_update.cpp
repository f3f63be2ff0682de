#include "src/train/device/device_update.h"

#include "kernels/flat_view.h"
#include "src/graph/plan_compiler.h"
#include "src/train/device/device_memory.h"

namespace perigee {

namespace {

KernelCall call_of(std::vector<View>& views) {
  return {.in = views.data(), .out = views.data() + 1, .n_in = 1, .n_out = static_cast<int>(views.size()) - 1};
}

}  // namespace

size_t DeviceUpdate::image_bytes_for(const Optimizer& optimizer, bool scaled) {
  size_t windows = 0;
  for (const ParamWindow& window : optimizer.windows()) windows += window.trainable ? 1 : 0;
  return sizeof(CudaUpdate) + windows * (scaled ? 2 : 1) * sizeof(CudaUpdateWindow);
}

size_t DeviceUpdate::bytes_for(const Params& params, const Optimizer& optimizer, size_t slots) {
  size_t sum = 0;
  if (const char* op = optimizer.update_op()) {
    std::byte* const somewhere = reinterpret_cast<std::byte*>(uintptr_t{1} << 32);  // aligned; nothing is there
    std::vector<View> views(2 + slots, flat_view(somewhere, params.block_elements(), params.dtype()));
    const KernelCall call = call_of(views);
    const auto kernels = kernel_candidates(op, call, {.backend = Backend::cuda});
    const size_t scratch = kernels.empty() || !kernels.front()->scratch_bytes ? 0 : kernels.front()->scratch_bytes(call);
    sum += scratch > 0 ? device_bytes(scratch) : 0;
  }
  if (optimizer.needs_norms()) {
    size_t windows = 0, pieces = 0;
    for (const ParamWindow& window : optimizer.windows()) {
      if (!window.trainable) continue;
      ++windows;
      pieces += static_cast<size_t>((window.elements + kNormPiece - 1) / kNormPiece);
    }
    sum += device_bytes(windows * sizeof(int32_t)) + device_bytes((windows + 1) * sizeof(int64_t)) + device_bytes(pieces * sizeof(double));
  }
  for (const Constraints::Rule& rule : optimizer.constraints().rules())
    sum += device_bytes(rule.starts.size() * sizeof(int64_t)) + device_bytes(rule.members.size() * sizeof(int64_t));
  return sum;
}

DeviceUpdate::DeviceUpdate(DeviceModel& model, const Optimizer& optimizer, std::byte* gradient, bool scaled)
    : model_(model), optimizer_(optimizer), gradient_(gradient), scaled_(scaled), if_skipped_(scaled ? optimizer.windows().size() : 0) {
  for (size_t i = 0; i < optimizer.windows().size(); ++i)
    if (optimizer.windows()[i].trainable) windows_.push_back(i);
  const Params& params = model.model().params();
  const auto block = [&](std::byte* data) { return flat_view(data, params.block_elements(), params.dtype()); };
  views_ = {block(gradient), block(model.block())};
  for (size_t i = 0; i < model.slots(); ++i) views_.push_back(block(model.slot(i)));
  if (model.halves().data) {
    views_.resize(1 + kUpdateHalves);
    views_.push_back(model.halves());
  }
  if (const char* op = optimizer.update_op()) {
    const KernelCall call = call_of(views_);
    const auto kernels = kernel_candidates(op, call, {.backend = Backend::cuda});
    if (kernels.empty())
      throw Error(ErrorKind::model, {.where = "optimizer",
                                     .what = "there is no CUDA kernel of '" + std::string(optimizer.type()) + "'",
                                     .got = params.dtype() == Dtype::f64 ? "float64" : "float32",
                                     .hint = "train with device = \"cpu\""});
    kernel_ = kernels.front();
    if (kernel_->scratch_bytes && kernel_->scratch_bytes(call) > 0)
      scratch_ = model.gpu().allocate(kernel_->scratch_bytes(call), "scratch of the update");
  }
  if (optimizer.needs_norms()) prepare_norms();
  if (optimizer.has_constraints()) prepare_constraints();
}

GpuMemory DeviceUpdate::on_device(const void* values, size_t bytes) {
  GpuMemory memory = model_.gpu().allocate(bytes, "tables of the update");
  model_.gpu().upload(memory.data(), values, bytes);
  return memory;
}

void DeviceUpdate::prepare_norms() {
  const Clip& clip = optimizer_.clip();
  std::vector<int32_t> groups;
  std::vector<int64_t> pieces = {0};
  for (const size_t i : windows_) {
    groups.push_back(clip.group(i));
    pieces.push_back(pieces.back() + (optimizer_.windows()[i].elements + kNormPiece - 1) / kNormPiece);
  }
  groups_ = on_device(groups.data(), groups.size() * sizeof groups[0]);
  pieces_ = on_device(pieces.data(), pieces.size() * sizeof pieces[0]);
  sums_ = model_.gpu().allocate((static_cast<size_t>(pieces.back()) + windows_.size()) * sizeof(double), "norms");
  norms_ = {.gradient = gradient_,
            .dtype = model_.model().params().dtype(),
            .groups = reinterpret_cast<const int32_t*>(groups_.data()),
            .windows = static_cast<int32_t>(windows_.size()),
            .group_count = clip.groups(),
            .pieces = reinterpret_cast<const int64_t*>(pieces_.data()),
            .piece_count = pieces.back(),
            .sums = reinterpret_cast<double*>(sums_.data()),
            .kind = clip.renormalizes() ? CudaNorms::renormalize : CudaNorms::cut,
            .threshold = clip.threshold()};
}

void DeviceUpdate::prepare_constraints() {
  for (const Constraints::Rule& rule : optimizer_.constraints().rules()) {
    Bound bound;
    bound.starts = on_device(rule.starts.data(), rule.starts.size() * sizeof(int64_t));
    bound.members = on_device(rule.members.data(), rule.members.size() * sizeof(int64_t));
    bound.call = {.block = model_.block(),
                  .dtype = model_.model().params().dtype(),
                  .starts = reinterpret_cast<const int64_t*>(bound.starts.data()),
                  .members = reinterpret_cast<const int64_t*>(bound.members.data()),
                  .vectors = static_cast<int64_t>(rule.starts.size()),
                  .elements = static_cast<int64_t>(rule.members.size()),
                  .non_negative = rule.kind == Constraints::Kind::non_negative,
                  .low = rule.min,
                  .high = rule.max,
                  .rate = rule.rate};
    constraints_.push_back(std::move(bound));
  }
}

void DeviceUpdate::write_image(std::byte* to, int64_t skipped) {
  auto* const head = reinterpret_cast<CudaUpdate*>(to);
  *head = {.windows = static_cast<int32_t>(windows_.size()), .skipped = skipped};
  auto* window = reinterpret_cast<CudaUpdateWindow*>(head + 1);
  const auto write = [&](std::span<const UpdateParams> params) {
    for (const size_t i : windows_) {
      const ParamWindow& place = optimizer_.windows()[i];
      *window++ = {place.offset, place.offset + place.elements, params[i]};
    }
  };
  write(optimizer_.window_params());
  if (!scaled_) return;
  optimizer_.params_if_skipped(if_skipped_);
  write(if_skipped_);
}

DeviceWork DeviceUpdate::end_of_scaling(CudaScaleCall call) const {
  DeviceWork piece{.what = "the look for what is not finite"};
  piece.access.read(range_of(views_[0]));
  piece.access.write(range_of(call.scale, sizeof *call.scale));
  piece.access.write(range_of(call.stopped, sizeof *call.stopped));
  piece.access.write(range_of(call.update, sizeof(CudaUpdate)));
  piece.access.write(range_of(call.record, sizeof *call.record));
  piece.queue = [this, call](CudaQueue& queue) { model_.gpu().module().steps->end_scaled(call, queue); };
  return piece;
}

void DeviceUpdate::add(CudaUpdate* image, CudaStepRecord* record, const CudaScaleCall* scaling, std::vector<DeviceWork>* pieces) {
  if (windows_.empty()) return;
  const MemoryRange scalars = range_of(image, image_bytes());
  if (norms_.gradient) {
    CudaNormCall norms = norms_;
    norms.update = image;
    norms.record = record;
    DeviceWork piece{.what = "the norms of gradients"};
    piece.access.read(range_of(views_[0]));
    for (const MemoryRange& range : {scalars, range_of(sums_.data(), sums_.bytes()), range_of(record, sizeof *record)})
      piece.access.write(range);
    piece.queue = [this, norms](CudaQueue& queue) { model_.gpu().module().steps->norms(norms, queue); };
    pieces->push_back(std::move(piece));
  }
  if (scaling) {
    CudaScaleCall call = *scaling;
    if (norms_.gradient) call.gradient = nullptr;
    pieces->push_back(end_of_scaling(call));
  }
  if (kernel_) {
    DeviceWork piece{.what = "the update, op '" + std::string(optimizer_.update_op()) + "'"};
    piece.access.read(range_of(views_[0]));
    piece.access.read(scalars);
    for (size_t i = 1; i < views_.size(); ++i) piece.access.write(range_of(views_[i]));
    piece.access.write(range_of(scratch_.data(), scratch_.bytes()));
    piece.queue = [this, image](CudaQueue& queue) {
      kernel_->run({.in = views_.data(),
                    .out = views_.data() + 1,
                    .n_in = 1,
                    .n_out = static_cast<int>(views_.size()) - 1,
                    .params = image,
                    .scratch = scratch_.data(),
                    .queue = &queue});
    };
    pieces->push_back(std::move(piece));
  }
  for (const Bound& bound : constraints_) {
    CudaConstraint call = bound.call;
    call.update = image;
    DeviceWork piece{.what = "a constraint"};
    piece.access.read(scalars);
    piece.access.write(range_of(views_[1]));
    piece.queue = [this, call](CudaQueue& queue) { model_.gpu().module().steps->constrain(call, queue); };
    pieces->push_back(std::move(piece));
  }
  if (constraints_.empty() || !model_.halves().data) return;
  DeviceWork rounding{.what = "the rounding of parameters"};
  rounding.access.read(range_of(views_[1]));
  rounding.access.write(range_of(model_.halves()));
  rounding.queue = [this](CudaQueue& queue) { model_.queue_rounding(queue); };
  pieces->push_back(std::move(rounding));
}

size_t DeviceUpdate::bytes() const {
  size_t sum = scratch_.bytes() + groups_.bytes() + pieces_.bytes() + sums_.bytes();
  for (const Bound& bound : constraints_) sum += bound.starts.bytes() + bound.members.bytes();
  return sum;
}

}  // namespace perigee
