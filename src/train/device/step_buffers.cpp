#include "src/train/device/step_buffers.h"

#include <algorithm>
#include <cstring>

#include "src/tensor/bytes.h"
#include "src/train/device/device_update.h"

namespace perigee {
namespace {

GpuMemory cleared(Gpu& gpu, size_t bytes, const char* purpose) {
  GpuMemory memory = gpu.allocate(bytes, purpose);
  gpu.clear(memory.data(), memory.bytes());
  return memory;
}

}  // namespace

StepBuffers::StepBuffers(Gpu& gpu, const Model& model, const Optimizer& optimizer, const DataSource& source, std::vector<int> fields,
                         bool scaled)
    : gpu_(gpu),
      model_(model),
      fields_(std::move(fields)),
      image_bytes_(DeviceUpdate::image_bytes_for(optimizer, scaled)),
      gradient_(cleared(gpu, model.params().block_bytes(), "gradients")),
      words_(cleared(gpu, 16, "words of the step")),
      scale_(scaled ? cleared(gpu, sizeof(CudaLossScale), "loss scale") : GpuMemory{}),
      gathered_(fields_.size()) {
  for (const int field : fields_) row_bytes_.push_back(byte_size(source.fields()[static_cast<size_t>(field)]));
  for (size_t i = 0; i < slots_.size(); ++i) {
    StepSlot& slot = slots_[i];
    slot.number = i;
    slot.record = gpu_.allocate_pinned(sizeof(CudaStepRecord));
    *record(slot) = {};
    slot.copied = gpu_.event();
    slot.done = gpu_.event();
  }
}

void StepBuffers::join_team(const Params& params) {
  shares_ = gpu_.allocate(3 * sizeof(double), "words of the step");
  if (params.state_specs().empty()) return;
  shared_states_ = gpu_.allocate(state_sum_bytes(params), "states");
  gpu_.clear(shared_states_.data(), shared_states_.bytes());
  const size_t sums = params.state_bytes().size() / params.width();
  std::vector<int32_t> mean_at(sums);
  // Neighbours of one type go together; the gap between them, where there is one, does no harm.
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const size_t begin = params.state_offset(static_cast<int>(i)), width = dtype_bytes(spec.dtype);
    const bool joins = !state_runs_.empty() && state_runs_.back().dtype == spec.dtype && (begin - state_runs_.back().begin) % width == 0;
    if (!joins) state_runs_.push_back({.begin = begin, .shared = begin / params.width() * sizeof(double), .dtype = spec.dtype});
    StateRun& run = state_runs_.back();
    run.elements = static_cast<int64_t>((begin - run.begin) / width) + spec.shape.elements();
    if (spec.mean.empty() || spec.frozen) continue;  // the mean of equal numbers is exact, a variance by way of E[x^2] is not
    const size_t mean = params.state_offset(params.find_state(spec.mean));
    std::fill_n(mean_at.begin() + static_cast<std::ptrdiff_t>(begin / width), spec.shape.elements(),
                static_cast<int32_t>((static_cast<int64_t>(mean) - static_cast<int64_t>(begin)) / static_cast<int64_t>(width)));
  }
  gpu_.upload(shared_states_.data() + sums * sizeof(double), mean_at.data(), sums * sizeof(int32_t));
}

StepLayout StepBuffers::layout_of(const StepWork& work) const {
  return StepLayout(model_, image_bytes_, work.examples, row_bytes_, work.gather, scale_.data() != nullptr);
}

void StepBuffers::grow(StepSlot& slot, const StepWork& work) {
  const size_t bytes = layout_of(work).total;
  slot.device = {};
  slot.device = gpu_.allocate(bytes, "a batch");
  slot.pinned = gpu_.allocate_pinned(bytes);
}

bool StepBuffers::gathers(const StepWork& work) const {
  for (size_t f = 0; f < fields_.size() && work.gather; ++f)
    if (!gathered_[f].data() || gathered_[f].bytes() < static_cast<size_t>(work.examples) * row_bytes_[f]) return false;
  return true;
}

void StepBuffers::grow_gathered(const StepWork& work) {
  for (size_t f = 0; f < fields_.size(); ++f) {
    const size_t rows = static_cast<size_t>(work.examples) * row_bytes_[f];
    if (gathered_[f].data() && gathered_[f].bytes() >= rows) continue;
    gathered_[f] = {};
    gathered_[f] = gpu_.allocate(rows, "a batch");
  }
}

void StepBuffers::fill(const StepSlot& slot, const StepWork& work, const Batch& batch, const StepInfo& info, int64_t first) {
  const StepLayout layout = layout_of(work);
  std::byte* const to = host(slot);
  StepInfo head = info;
  head.example_ids = reinterpret_cast<const int64_t*>(slot.device.data() + layout.ids);
  std::memcpy(to, &head, sizeof head);
  if (work.examples > 0) std::memcpy(to + layout.ids, batch.ids.data() + first, static_cast<size_t>(work.examples) * sizeof(int64_t));
  for (size_t f = 0; f < layout.fields.size(); ++f)
    std::memcpy(to + layout.fields[f],
                static_cast<const std::byte*>(batch.fields[static_cast<size_t>(fields_[f])].view().data) +
                    static_cast<size_t>(first) * row_bytes_[f],
                static_cast<size_t>(work.examples) * row_bytes_[f]);
  for (size_t i = 0; i < layout.factors.size() && factors_ != nullptr; ++i)
    std::memcpy(to + layout.factors[i], factors_->values(i), static_cast<size_t>(work.examples) * model_.params().width());
}

void StepBuffers::send(StepSlot& slot, const StepWork& work) {
  const CudaModule& module = gpu_.module();
  slot.work = work;
  gpu_.check(module.copy(slot.device.data(), host(slot), layout_of(work).total, gpu_.copies()), "copy a batch");
  gpu_.check(module.record_event(slot.copied.get(), gpu_.copies()), "record an event");
  gpu_.check(module.stream_waits(gpu_.queue().stream, slot.copied.get()), "wait for a copy");
}

size_t StepBuffers::batch_bytes() const {
  size_t sum = 0;
  for (const StepSlot& slot : slots_) sum += slot.device.bytes();
  for (const GpuMemory& rows : gathered_) sum += rows.bytes();
  return sum;
}

}  // namespace perigee
