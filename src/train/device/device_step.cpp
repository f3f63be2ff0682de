#include "src/train/device/device_step.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/graph/plan_check.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

std::vector<std::string> names_of_inputs(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const NetworkInput& input : spec.inputs) names.push_back(input.name);
  names.push_back(spec.target.name);
  for (const LossHead& head : spec.more_heads) names.push_back(head.target.name);
  return names;
}

GpuMemory cleared(Gpu& gpu, size_t bytes, const char* purpose) {
  GpuMemory memory = gpu.allocate(bytes, purpose);
  gpu.clear(memory.data(), memory.bytes());
  return memory;
}

}  // namespace

DeviceStep::DeviceStep(DeviceModel& model, PlanSet& plans, Optimizer& optimizer, const DataSource& source, std::vector<int> fields,
                       uint64_t seed, Tuning& tuning, const LossScale* scale, size_t data_room)
    : model_(model),
      gpu_(model.gpu()),
      optimizer_(optimizer),
      tuning_(tuning),
      fields_(std::move(fields)),
      input_names_(names_of_inputs(model.model().spec())),
      op_by_op_(steps_op_by_op()),
      gradient_(cleared(gpu_, model.model().params().block_bytes(), "gradients")),
      words_(cleared(gpu_, 16, "words of the step")),
      scale_(scale ? cleared(gpu_, sizeof(CudaLossScale), "loss scale") : GpuMemory{}),
      plans_(model, plans, gradient_.data()),
      update_(model, optimizer, gradient_.data(), scale != nullptr),
      data_(ResidentData::load(gpu_, source, fields_, seed, data_room)),
      gathered_(fields_.size()) {
  for (const int field : fields_) {
    const Field& of = source.fields()[static_cast<size_t>(field)];
    row_bytes_.push_back(byte_size(of));
  }
  const Field& target = source.fields()[static_cast<size_t>(fields_[model.model().spec().inputs.size()])];
  labels_ = model.model().spec().classes > 0 && target.dtype == Dtype::i64;
  for (Slot& slot : slots_) {
    slot.record = gpu_.allocate_pinned(sizeof(CudaStepRecord));
    *record(slot) = {};
    slot.copied = gpu_.event();
    slot.done = gpu_.event();
  }
  if (scale) set_loss_scale(*scale);
}

DeviceStep::~DeviceStep() { gpu_.drain(); }  // whoever works there still: its memory goes

StepLayout DeviceStep::layout_of(const Work& work) const {
  return StepLayout(update_.image_bytes(), work.examples, row_bytes_, work.gather, scale_.data() != nullptr);
}

void DeviceStep::drop_graphs() {
  gpu_.wait();
  for (Slot& slot : slots_) slot.drop_graphs();
}

void DeviceStep::make_room(Slot& slot, const Work& work) {
  const size_t bytes = layout_of(work).total;
  if (slot.device.bytes() < bytes) {
    gpu_.wait();
    slot.drop_graphs();
    slot.device = {};
    slot.device = gpu_.allocate(bytes, "a batch");
    slot.pinned = gpu_.allocate_pinned(bytes);
  }
  for (size_t f = 0; f < fields_.size() && work.gather; ++f) {
    const size_t rows = static_cast<size_t>(work.examples) * row_bytes_[f];
    if (gathered_[f].bytes() >= rows && gathered_[f].data()) continue;
    drop_graphs();
    gathered_[f] = {};
    gathered_[f] = gpu_.allocate(rows, "a batch");
  }
  if (work.part != Part::update && work.examples > 0) plans_.at(work.examples);
  if (generation_ != plans_.generation()) {
    drop_graphs();
    generation_ = plans_.generation();
  }
}

void DeviceStep::fill(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info, int64_t first) {
  const StepLayout layout = layout_of(work);
  std::byte* const to = host(slot);
  StepInfo head = info;
  head.example_ids = reinterpret_cast<const int64_t*>(slot.device.data() + layout.ids);
  std::memcpy(to, &head, sizeof head);
  if (work.part != Part::compute) update_.write_image(to + layout.update, skipped_);
  if (work.examples > 0) std::memcpy(to + layout.ids, batch.ids.data() + first, static_cast<size_t>(work.examples) * sizeof(int64_t));
  for (size_t f = 0; f < layout.fields.size(); ++f)
    std::memcpy(to + layout.fields[f],
                static_cast<const std::byte*>(batch.fields[static_cast<size_t>(fields_[f])].view().data) +
                    static_cast<size_t>(first) * row_bytes_[f],
                static_cast<size_t>(work.examples) * row_bytes_[f]);
}

// The slot's buffer goes over beside the step before; what is queued from now on finds it.
void DeviceStep::send(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info, int64_t first) {
  const CudaModule& module = gpu_.module();
  make_room(slot, work);
  fill(slot, work, batch, info, first);
  slot.work = work;
  gpu_.check(module.copy(slot.device.data(), host(slot), layout_of(work).total, gpu_.copies()), "copy a batch");
  gpu_.check(module.record_event(slot.copied.get(), gpu_.copies()), "record an event");
  gpu_.check(module.stream_waits(gpu_.queue().stream, slot.copied.get()), "wait for a copy");
}

void DeviceStep::start(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info) {
  send(slot, work, batch, info, 0);
  run(slot, work);
  gpu_.check(gpu_.module().record_event(slot.done.get(), gpu_.queue().stream), "record an event");
  ++queued_;
}

void DeviceStep::run(Slot& slot, const Work& work) {
  settle_once(slot, work);
  if (blocking()) return queue_in_line(gpu_, work_of(slot, work), true);
  GpuHandle& graph = slot.graphs[work];
  if (!graph && !branched_.contains(work)) graph = warm_up(slot, work);
  if (!graph) {
    const std::vector<DeviceWork> pieces = work_of(slot, work);
    graph = branched_.at(work) ? branches_->capture(pieces) : gpu_.capture([&] { queue_in_line(gpu_, pieces, false); });
  }
  gpu_.launch(graph);
}

void DeviceStep::settle_once(Slot& slot, const Work& work) {
  if (work.part == Part::update || work.examples == 0 || settled_.contains(work)) return;
  settle(slot, work, false);
  settled_.insert(work);
}

// Every step of the plan runs once, on the batch in the slot; those that run otherwise than the plan says make another plan.
int DeviceStep::settle(Slot& slot, const Work& work, bool measure) {
  const auto* const info = reinterpret_cast<const StepInfo*>(slot.device.data());
  const auto* const ids = reinterpret_cast<const int64_t*>(slot.device.data() + layout_of(work).ids);
  int measured = 0;
  for (bool again = true; again;) {
    PlanRun& run = plans_.at(work.examples);
    if (work.gather) data_->gather(gpu_, ids, work.examples, gathered_by(run.plan()), gpu_.queue());
    gpu_.check_queue("the gathering of a batch");
    bind_inputs(run, slot, work);
    if (scale_.data()) {
      CudaScaleCall seeds = scaling(slot, work);
      seeds.update = nullptr;
      gpu_.module().steps->begin_scaled(seeds, gpu_.queue());
    }
    const DeviceTuned tuned = tune_on_device(gpu_, run, info, measure, tuning_);
    measured += tuned.measured;
    again = tuned.changed > 0;
    if (!again) break;
    plans_.renew(work.examples);
    make_room(slot, work);
  }
  return measured;
}

namespace {

const char* wanted_branches() { return std::getenv("PERIGEE_CUDA_BRANCHES"); }

}  // namespace

// PERIGEE_CUDA_BRANCHES says how many, unmeasured.
int DeviceStep::most_branches() const { return wanted_branches() ? std::atoi(wanted_branches()) : kBranches; }

// In line, or on branches where that is faster; null: in line, not captured yet.
GpuHandle DeviceStep::choose_form(const Work& work, const std::vector<DeviceWork>& pieces) {
  branched_[work] = false;
  if (most_branches() <= 1 || work.part == Part::update) return {};
  GpuHandle graph = wanted_branches() ? branches(true).capture(pieces) : faster_on_branches(gpu_, branches(true), pieces);
  branched_[work] = static_cast<bool>(graph);
  if (std::none_of(branched_.begin(), branched_.end(), [](const auto& form) { return form.second; })) branches_.reset();
  return graph;
}

// With what stops a step set, so that nothing changes.
template <class Run>
void DeviceStep::run_stopped(Slot& slot, const Work& work, Run run) {
  const int32_t one = 1;
  int32_t before = 0;
  gpu_.download(&before, stopped(), sizeof before);
  gpu_.upload(stopped(), &one, sizeof one);
  if (work.part == Part::update) gpu_.upload(&image(slot)->skip, &one, sizeof one);
  const CudaStepRecord kept = *record(slot);
  const auto go_on = [&] {
    *record(slot) = kept;
    gpu_.upload(stopped(), &before, sizeof before);
  };
  try {
    run();
  } catch (const Error&) {
    try {
      go_on();
    } catch (const Error&) {}  // of a device that is lost: the first failure says it
    throw;
  }
  go_on();
  gpu_.upload(slot.device.data(), host(slot), layout_of(work).total);  // norms change the image
}

// Once for each batch size: libraries make their plans, kernels are loaded, and what does not run says so by name; then the graph's form is
// chosen.
GpuHandle DeviceStep::warm_up(Slot& slot, const Work& work) {
  GpuHandle graph;
  try {
    run_stopped(slot, work, [&] {
      queue_in_line(gpu_, work_of(slot, work), true);
      graph = choose_form(work, work_of(slot, work));
    });
  } catch (const Error&) {
    branched_.erase(work);
    throw;
  }
  return graph;
}

bool DeviceStep::prefers_branches() {
  Slot& slot = next();
  const auto known = branched_.find(slot.work);
  if (known != branched_.end()) return known->second;
  gpu_.select();
  std::vector<DeviceWork> pieces;
  for (const std::vector<DeviceWork>& section : described_) pieces.insert(pieces.end(), section.begin(), section.end());
  try {
    run_stopped(slot, slot.work, [&] { choose_form(slot.work, pieces); });
  } catch (const Error&) {
    branched_.erase(slot.work);
    throw;
  }
  return branched_.at(slot.work);
}

void DeviceStep::describe() {
  Slot& slot = next();
  gpu_.select();
  described_ = sections_of(slot, slot.work);
  if (blocking() || !warm_sections_.insert(slot.work).second) return;
  try {
    run_stopped(slot, slot.work, [&] {
      for (const std::vector<DeviceWork>& section : described_) queue_in_line(gpu_, section, true);
    });
  } catch (const Error&) {
    warm_sections_.erase(slot.work);
    throw;
  }
}

void DeviceStep::prepare(int64_t examples) {
  gpu_.select();
  for (Slot& slot : slots_) make_room(slot, {Part::whole, examples, resident()});
}

int DeviceStep::measure(const Batch& batch, const StepInfo& info, int64_t examples) {
  gpu_.select();
  model_.to_device();
  Slot& slot = slots_[0];
  const Work work{Part::compute, examples, resident() && batch.fields.empty()};
  make_room(slot, work);
  fill(slot, work, batch, info);
  gpu_.upload(slot.device.data(), host(slot), layout_of(work).total);
  const int measured = settle(slot, work, true);
  gpu_.wait();
  gpu_.forget_kept();
  return measured;
}

void DeviceStep::queue(const Batch& batch, const StepInfo& info) {
  assert(in_flight() < kInFlight && batch.size > 0);
  gpu_.select();
  model_.to_device();
  start(slots_[queued_ % kInFlight], {Part::whole, batch.size, resident() && batch.fields.empty()}, batch, info);
  model_.device_changed();
}

DeviceReport DeviceStep::report_of(const Slot& slot) const {
  const CudaStepRecord& got = *record(slot);
  return {.loss_sum = got.loss_sum,
          .correct = got.correct,
          .gradient_norm = got.gradient_norm,
          .finite = got.stopped == 0,
          .overflowed = got.overflowed != 0,
          .scale = got.scale,
          .seed = static_cast<double>(got.seed)};
}

LossScale DeviceStep::loss_scale() {
  CudaLossScale now;
  gpu_.select();
  gpu_.wait();
  gpu_.download(&now, scale_.data(), sizeof now);
  return now.scale;
}

void DeviceStep::set_loss_scale(const LossScale& scale) {
  assert(in_flight() == 0);
  const CudaLossScale now{.scale = scale};
  gpu_.select();
  gpu_.upload(scale_.data(), &now, sizeof now);
  skipped_ = scale.skipped;
}

DeviceReport DeviceStep::take() {
  assert(in_flight() > 0);
  gpu_.select();
  const Slot& slot = slots_[taken_ % kInFlight];
  gpu_.check(gpu_.module().wait_for_event(slot.done.get()), "finish a step of " + std::to_string(slot.work.examples) + " examples");
  return taken();
}

DeviceReport DeviceStep::taken() {
  const Slot& slot = slots_[taken_ % kInFlight];
  ++taken_;
  const DeviceReport report = report_of(slot);
  if (scale_.data() && slot.work.part != Part::update) skipped_ = report.scale.skipped;
  return report;
}

void DeviceStep::forget_in_flight() {
  gpu_.select();
  gpu_.wait();
  taken_ = queued_;
  gpu_.clear(stopped(), sizeof(int32_t));
}

std::string DeviceStep::find_non_finite() {
  gpu_.select();
  gpu_.wait();
  Slot& slot = slots_[(taken_ - 1) % kInFlight];
  PlanRun& run = plans_.at(slot.work.examples);
  bind_inputs(run, slot, slot.work);
  const auto* const ids = reinterpret_cast<const int64_t*>(slot.device.data() + layout_of(slot.work).ids);
  if (slot.work.gather) data_->gather(gpu_, ids, slot.work.examples, gathered_by(run.plan()), gpu_.queue());
  std::vector<std::byte> values;
  run.queue_packs(gpu_.queue());
  for (size_t i = 0; i < run.plan().steps().size(); ++i) {
    run.queue_step(i, gpu_.queue(), reinterpret_cast<const StepInfo*>(slot.device.data()));
    gpu_.check_queue(step_name(run.plan().steps()[i]));
    for (int o = 0; o < run.call(i).n_out; ++o) {
      const View& view = run.call(i).out[o];
      if (!view.dense() || !is_floating(view.dtype)) continue;
      values.resize(static_cast<size_t>(view.elements()) * dtype_bytes(view.dtype));
      gpu_.download(values.data(), view.data, values.size());
      View here = view;
      here.data = values.data();
      if (!all_finite(here)) return step_name(run.plan().steps()[i]);
    }
  }
  return "";
}

DeviceReport DeviceStep::compute(const Batch& batch, const StepInfo& info) {
  assert(in_flight() == 0);
  gpu_.select();
  if (batch.size == 0) {
    gpu_.clear(gradient_.data(), gradient_.bytes());
    return {};
  }
  model_.to_device();
  start(slots_[queued_ % kInFlight], {Part::compute, batch.size, resident() && batch.fields.empty()}, batch, info);
  const DeviceReport report = take();
  if (!report.finite) gpu_.clear(stopped(), sizeof(int32_t));
  return report;
}

void DeviceStep::gradient_to_host(std::byte* to) { gpu_.download(to, gradient_.data(), model_.model().params().block_bytes()); }

void DeviceStep::divide_gradient(double by) {
  auto* const values = reinterpret_cast<float*>(gradient_.data());
  const CudaPack in_place{
      .longest = model_.model().params().block_elements(), .block = values, .factor = static_cast<float>(1 / by), .packed = values};
  gpu_.select();
  gpu_.check(gpu_.module().rounds->pack(in_place, static_cast<CudaStream>(gpu_.queue().stream)), "take the loss scale out of a gradient");
}

void DeviceStep::update(const std::byte* gradient) {
  assert(in_flight() == 0);
  gpu_.select();
  model_.to_device();
  if (gradient) gpu_.upload(gradient_.data(), gradient, model_.model().params().block_bytes());
  start(slots_[queued_ % kInFlight], {.part = Part::update, .gather = true}, {}, {});
  norm_ = take().gradient_norm;
  model_.device_updated();
}

const DeviceStep::Work* DeviceStep::last_compute() const {
  for (uint64_t back = 1; back <= std::min(queued_, kInFlight); ++back)
    if (const Work& work = slots_[(queued_ - back) % kInFlight].work; work.part != Part::update) return &work;
  return nullptr;
}

void DeviceStep::commit_states() {
  const Work* const last = last_compute();
  if (!last) return;
  gpu_.select();
  model_.to_device();
  std::vector<DeviceWork> commits;
  add_commits(plans_.at(last->examples), stopped(), &commits);
  queue_in_line(gpu_, commits, false);
  gpu_.wait();
  model_.device_changed_states();
}

size_t DeviceStep::bytes() const { return gpu_.peak(); }

DeviceMemory DeviceStep::memory() const {
  const size_t block = device_bytes(model_.model().params().block_bytes());
  DeviceMemory held{.parameters = block + (model_.halves().data ? device_bytes(half_block_bytes(model_.model().params())) : 0),
                    .states = device_bytes(model_.model().params().state_bytes().size()) + shared_states_.bytes(),
                    .gradients = gradient_.bytes() + words_.bytes() + shares_.bytes() + scale_.bytes(),
                    .optimizer = model_.slots() * block + update_.bytes(),
                    .training = model_.arena().bytes(),
                    .constants = plans_.bytes(),
                    .data_set = data_ ? data_->bytes() : 0};
  for (const Slot& slot : slots_) held.batches += slot.device.bytes();
  for (const GpuMemory& rows : gathered_) held.batches += rows.bytes();
  return held;
}

// CUDA's context, kernels, libraries and their workspaces, and other processes.
size_t DeviceStep::bytes_of_others() const {
  const size_t all = gpu_.properties().memory_bytes;
  return all - std::min(all, gpu_.free_bytes() + gpu_.held());
}

}  // namespace perigee
