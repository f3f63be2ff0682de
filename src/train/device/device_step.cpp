#include "src/train/device/device_step.h"

#include <algorithm>
#include <cassert>

#include "kernels/dtype_kinds.h"
#include "src/graph/plan_check.h"
#include "src/tensor/bytes.h"

namespace perigee {

DeviceStep::DeviceStep(DeviceModel& model, PlanSet& plans, Optimizer& optimizer, const DataSource& source, std::vector<int> fields,
                       uint64_t seed, Tuning& tuning, const LossScale* scale, size_t data_room, int64_t streams)
    : model_(model),
      gpu_(model.gpu()),
      tuning_(tuning),
      op_by_op_(steps_op_by_op()),
      buffers_(gpu_, model.model(), optimizer, source, std::move(fields), scale != nullptr),
      plans_(model, plans, buffers_.gradient().data()),
      update_(model, optimizer, buffers_.gradient().data(), scale != nullptr),
      data_(ResidentData::load(gpu_, source, buffers_.fields(), seed, data_room)),
      rows_(model.model().carried().empty() ? nullptr : std::make_unique<DeviceRows>(gpu_, model.model().carried(), streams)),
      program_(model, buffers_, plans_, update_, data_.get(), rows_.get(),
               source.fields()[static_cast<size_t>(buffers_.fields()[model.model().spec().inputs.size()])]),
      graphs_(gpu_, buffers_, program_) {
  if (scale) set_loss_scale(*scale);
}

DeviceStep::~DeviceStep() { gpu_.drain(); }  // what is queued there still: its memory goes

void DeviceStep::make_room(StepSlot& slot, const StepWork& work) {
  if (!buffers_.holds(slot, work)) {
    graphs_.drop(slot);
    buffers_.grow(slot, work);
  }
  if (!buffers_.gathers(work)) {
    graphs_.drop();
    buffers_.grow_gathered(work);
  }
  if (work.part != Part::update && work.examples > 0) plans_.at(work.examples);
  if (generation_ != plans_.generation()) {
    graphs_.drop();
    generation_ = plans_.generation();
  }
}

void DeviceStep::fill(StepSlot& slot, const StepWork& work, const Batch& batch, const StepInfo& info, int64_t first) {
  make_room(slot, work);
  buffers_.fill(slot, work, batch, info, first);
  if (work.part != Part::compute) update_.write_image(buffers_.host(slot) + buffers_.layout_of(work).update, skipped_);
}

// An epoch begins with streams that carry nothing.
void DeviceStep::begin_rows(const StepWork& work, const Batch& batch) {
  if (rows_ && work.part != Part::update && batch.position == 0) rows_->clear(work.first, work.examples);
}

void DeviceStep::start(const StepWork& work, const Batch& batch, const StepInfo& info) {
  StepSlot& slot = next();
  fill(slot, work, batch, info, 0);
  buffers_.send(slot, work);
  begin_rows(work, batch);
  settle_once(slot, work);
  if (blocking()) queue_in_line(gpu_, program_.whole(slot, work), true);
  else graphs_.launch(slot, work);
  gpu_.check(gpu_.module().record_event(slot.done.get(), gpu_.queue().stream), "record an event");
  ++queued_;
}

void DeviceStep::settle_once(StepSlot& slot, const StepWork& work) {
  if (work.part == Part::update || work.examples == 0 || settled_.contains(work)) return;
  settle(slot, work, false);
  settled_.insert(work);
}

// Every step of the plan runs once, on the batch in the slot; those that run otherwise than the plan says make another plan.
int DeviceStep::settle(StepSlot& slot, const StepWork& work, bool measure) {
  int measured = 0;
  for (bool again = true; again;) {
    PlanRun& run = plans_.at(work.examples);
    program_.queue_gather(run, slot, work);
    gpu_.check_queue("the gathering of a batch");
    program_.bind_inputs(run, slot, work);
    program_.queue_seeds(slot, work);
    const DeviceTuned tuned = tune_on_device(gpu_, run, buffers_.info(slot), measure, tuning_);
    measured += tuned.measured;
    again = tuned.changed > 0;
    if (!again) break;
    plans_.renew(work.examples);
    make_room(slot, work);
  }
  return measured;
}

void DeviceStep::prepare(int64_t examples) {
  gpu_.select();
  for (uint64_t i = 0; i < kInFlight; ++i) make_room(buffers_.slot(i), {Part::whole, examples, resident()});
}

int DeviceStep::measure(const Batch& batch, const StepInfo& info, int64_t examples) {
  gpu_.select();
  model_.to_device();
  StepSlot& slot = buffers_.slot(0);
  const StepWork work{Part::compute, examples, resident() && batch.fields.empty()};
  fill(slot, work, batch, info, 0);
  gpu_.upload(slot.device.data(), buffers_.host(slot), buffers_.layout_of(work).total);
  const int measured = settle(slot, work, true);
  gpu_.wait();
  gpu_.forget_kept();
  return measured;
}

void DeviceStep::queue(const Batch& batch, const StepInfo& info) {
  assert(in_flight() < kInFlight && batch.size > 0);
  gpu_.select();
  model_.to_device();
  start({Part::whole, batch.size, resident() && batch.fields.empty()}, batch, info);
  model_.device_changed();
}

LossScale DeviceStep::loss_scale() {
  CudaLossScale now;
  gpu_.select();
  gpu_.wait();
  gpu_.download(&now, buffers_.scale().data(), sizeof now);
  return now.scale;
}

void DeviceStep::set_loss_scale(const LossScale& scale) {
  assert(in_flight() == 0);
  const CudaLossScale now{.scale = scale};
  gpu_.select();
  gpu_.upload(buffers_.scale().data(), &now, sizeof now);
  skipped_ = scale.skipped;
}

DeviceReport DeviceStep::take() {
  assert(in_flight() > 0);
  gpu_.select();
  const StepSlot& slot = buffers_.slot(taken_);
  gpu_.check(gpu_.module().wait_for_event(slot.done.get()), "finish a step of " + std::to_string(slot.work.examples) + " examples");
  return taken();
}

DeviceReport DeviceStep::taken() {
  const StepSlot& slot = buffers_.slot(taken_);
  ++taken_;
  const CudaStepRecord& got = *buffers_.record(slot);
  if (buffers_.scale().data() && slot.work.part != Part::update) skipped_ = got.scale.skipped;
  return {.loss_sum = got.loss_sum,
          .correct = got.correct,
          .gradient_norm = got.gradient_norm,
          .finite = got.stopped == 0,
          .overflowed = got.overflowed != 0,
          .scale = got.scale,
          .seed = static_cast<double>(got.seed)};
}

void DeviceStep::forget_in_flight() {
  gpu_.select();
  gpu_.wait();
  taken_ = queued_;
  clear_stopped();
}

std::string DeviceStep::find_non_finite() {
  gpu_.select();
  gpu_.wait();
  StepSlot& slot = buffers_.slot(taken_ - 1);
  PlanRun& run = plans_.at(slot.work.examples);
  program_.bind_inputs(run, slot, slot.work);
  program_.queue_gather(run, slot, slot.work);
  std::vector<std::byte> values;
  run.queue_packs(gpu_.queue());
  for (size_t i = 0; i < run.plan().steps().size(); ++i) {
    run.queue_step(i, gpu_.queue(), buffers_.info(slot));
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
    gpu_.clear(gradient(), buffers_.gradient().bytes());
    return {};
  }
  model_.to_device();
  start({Part::compute, batch.size, resident() && batch.fields.empty()}, batch, info);
  const DeviceReport report = take();
  if (!report.finite) clear_stopped();
  return report;
}

void DeviceStep::gradient_to_host(std::byte* to) { gpu_.download(to, gradient(), model_.model().params().block_bytes()); }

void DeviceStep::divide_gradient(double by) {
  auto* const values = reinterpret_cast<float*>(gradient());
  const CudaPack in_place{
      .longest = model_.model().params().block_elements(), .block = values, .factor = static_cast<float>(1 / by), .packed = values};
  gpu_.select();
  gpu_.check(gpu_.module().rounds->pack(in_place, static_cast<CudaStream>(gpu_.queue().stream)), "take the loss scale out of a gradient");
}

void DeviceStep::keep_sum() {
  gpu_.select();
  if (!sum_.data()) sum_ = gpu_.allocate(buffers_.gradient().bytes(), "sums of gradients");
}

void DeviceStep::add_to_sum(bool first, bool last) {
  if (first && last) return;
  gpu_.select();
  const Params& params = model_.model().params();
  CudaCombineCall call{.n = 0, .to = last ? gradient() : sum_.data(), .elements = params.block_elements(), .dtype = params.dtype()};
  if (!first) call.parts[call.n++] = sum_.data();
  call.parts[call.n++] = gradient();
  gpu_.module().steps->combine(call, gpu_.queue());
  gpu_.check_queue("the sum of gradients");
}

void DeviceStep::update(const std::byte* gradient) {
  assert(in_flight() == 0);
  gpu_.select();
  model_.to_device();
  if (gradient) gpu_.upload(this->gradient(), gradient, model_.model().params().block_bytes());
  start({.part = Part::update, .gather = true}, {}, {});
  norm_ = take().gradient_norm;
  model_.device_updated();
}

const StepWork* DeviceStep::last_compute() const {
  for (uint64_t back = 1; back <= std::min(queued_, kInFlight); ++back)
    if (const StepWork& work = buffers_.slot(queued_ - back).work; work.part != Part::update) return &work;
  return nullptr;
}

void DeviceStep::commit_states() {
  const StepWork* const last = last_compute();
  if (!last) return;
  gpu_.select();
  model_.to_device();
  std::vector<DeviceWork> commits;
  program_.add_commits(*last, buffers_.stopped(), &commits);
  queue_in_line(gpu_, commits, false);
  gpu_.wait();
  model_.device_changed_states();
}

DeviceMemory DeviceStep::memory() const {
  const Params& params = model_.model().params();
  const size_t block = device_bytes(params.block_bytes());
  return {.parameters = block + (model_.halves().data ? device_bytes(half_block_bytes(params)) : 0),
          .states = device_bytes(params.state_bytes().size()) + buffers_.shared_states().bytes(),
          .gradients =
              buffers_.gradient().bytes() + buffers_.words().bytes() + buffers_.shares().bytes() + buffers_.scale().bytes() + sum_.bytes(),
          .optimizer = model_.slots() * block + update_.bytes(),
          .training = model_.arena().bytes(),
          .constants = plans_.bytes(),
          .batches = buffers_.batch_bytes() + (rows_ ? rows_->bytes() : 0),
          .data_set = data_ ? data_->bytes() : 0};
}

// CUDA's context, kernels, libraries and their workspaces, and other processes.
size_t DeviceStep::bytes_of_others() const {
  const size_t all = gpu_.properties().memory_bytes;
  return all - std::min(all, gpu_.free_bytes() + gpu_.held());
}

void DeviceStep::cut(std::vector<Optimizer::Range> buckets) {
  assert(in_flight() == 0);
  gpu_.select();
  graphs_.drop();
  program_.cut(std::move(buckets));
}

void DeviceStep::join_team() {
  gpu_.select();
  buffers_.join_team(model_.model().params());
}

void DeviceStep::begin(Part part, const Batch& batch, const Share& share, const StepInfo& info) {
  assert(in_flight() < kInFlight);
  gpu_.select();
  model_.to_device();
  StepSlot& slot = next();
  const StepWork work{part, share.examples, part == Part::update || (resident() && batch.fields.empty()), share.of,
                      rows_ ? share.first : 0};
  fill(slot, work, batch, info, share.first);
  buffers_.send(slot, work);
  begin_rows(work, batch);
  settle_once(slot, work);
}

void DeviceStep::describe() {
  gpu_.select();
  graphs_.describe(next(), blocking());
}

bool DeviceStep::prefers_branches() {
  gpu_.select();
  return graphs_.prefers_branches(next());
}

GpuBranches& DeviceStep::branches(bool several) {
  gpu_.select();
  return graphs_.branches(several);
}

void DeviceStep::queue_section(size_t section) {
  gpu_.select();
  graphs_.queue_section(section);
}

void DeviceStep::capture_sections(bool branched) {
  gpu_.select();
  graphs_.capture_sections(next(), branched);
}

void DeviceStep::end() {
  gpu_.select();
  StepSlot& slot = next();
  gpu_.check(gpu_.module().record_event(slot.done.get(), gpu_.queue().stream), "record an event");
  ++queued_;
  if (slot.work.part == Part::whole) model_.device_changed();
  if (slot.work.part == Part::update) model_.device_updated();
}

bool DeviceStep::queue_commit(bool take_means) {
  const StepWork* const last = last_compute();
  if (!last || state_runs().empty()) return false;
  gpu_.select();
  model_.to_device();
  const int32_t* const skip = buffers_.stopped();
  std::vector<DeviceWork> pieces;
  if (take_means) program_.add_states(true, *last, skip, &pieces);
  if (!take_means && last->examples > 0) program_.add_commits(*last, skip, &pieces);
  if (!take_means) program_.add_states(false, *last, skip, &pieces);
  queue_in_line(gpu_, pieces, false);
  model_.device_changed_states();
  return true;
}

}  // namespace perigee
