// Trainer on a device: the same steps, of which the next one is queued before the figures of the one before are looked at.
#include <cassert>
#include <cmath>
#include <deque>

#include "src/model/evaluator.h"
#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {
// A step that is queued, and where the run stood before it.
struct Trainer::Ahead {
  StepReport report;
  Position before;
};

void Trainer::make_device() {
  const Json* const wanted = job_.json().find("deterministic");
  const bool deterministic = wanted && *wanted == Json(true);
  if (!gpus_) gpus_ = std::make_unique<GpuGroup>(options_.devices, job_.where(), deterministic);
  for (size_t i = 0; i < gpus_->size(); ++i) (*gpus_)[i].queue().tf32 = job_.tf32();
  use_device(tuning_, gpus_->first(), gpus_->first().queue());
  options_.measure &= !deterministic;  // times are other ones in each run, and so may be what is chosen by them
  if (options_.measure) tuning_.load_machine();
  if (options_.tuning.is_object()) tuning_.merge(options_.tuning);
  if (device_) device_->model().to_host(), device_->model().slots_to_host();
  loss_scale();         // of the device that goes
  evaluators_.clear();  // they hold on to the model on the device
  inference_.reset();
  device_.reset();
  plans_ = std::make_unique<PlanSet>(*model_, PlanSet::Kind::training, Backend::cuda, &tuning_);
  PlanSet evaluation(*model_, PlanSet::Kind::inference_with_loss, Backend::cuda, &tuning_);
  DeviceMemory need;
  const size_t data_room = share_out(evaluation, &need);
  std::vector<int> fields = input_fields_;
  fields.insert(fields.end(), target_fields_.begin(), target_fields_.end());
  device_ = std::make_unique<DeviceTeam>(*gpus_, *model_, &slots_, *plans_, *optimizer_, *train_, fields, seed_, tuning_,
                                         scale_ ? &*scale_ : nullptr, data_room);
  // One arena, for evaluation too if there is room: then nothing grows later.
  device_->reserve(gpus_->free_bytes() > need.arena() ? need.arena() : need.training);
  if (options_.check) device_->check_kernels();
  warn_of_missing_libraries(gpus_->first(), *plans_->plan(share_of(batch_)));
  if (buckets_.empty() && gpus_->size() > 1) cut_gradient(kGroupBucket);
  else if (!buckets_.empty()) device_->cut(buckets_);
}

Model& Trainer::model() {
  if (device_) device_->model().to_host(), device_->host_changed();
  return *model_;
}

const Model& Trainer::model() const {
  if (device_) device_->model().to_host();
  return *model_;
}

std::span<std::byte> Trainer::states() {
  if (device_) device_->model().states_to_host(), device_->host_changed_states();
  return model_->params().state_bytes();
}

std::span<const std::byte> Trainer::states() const {
  if (device_) device_->model().states_to_host();
  return model_->params().state_bytes();
}

DeviceModel* Trainer::model_there() const { return device_ && gpus_->size() == 1 ? &device_->model() : nullptr; }
std::byte* Trainer::gradient_there() const { return model_there() ? device_->gradient() : nullptr; }

std::span<std::byte> Trainer::optimizer_slot(size_t i) {
  if (device_) device_->model().slots_to_host(), device_->host_changed_slots();
  return {slots_[i].data(), slots_[i].bytes()};
}

std::span<const std::byte> Trainer::optimizer_slot(size_t i) const {
  if (device_) device_->model().slots_to_host();
  return {slots_[i].data(), slots_[i].bytes()};
}

Trainer::Ahead Trainer::queue_step(const Batch& batch) {
  Ahead ahead{.report = {.step = position_.step + 1, .epoch = batch.epoch, .examples = batch.size}, .before = position_};
  begin_update(batch.size);
  ahead.report.learning_rate = optimizer_->learning_rate();
  const uint64_t begin_ns = monotonic_ns();
  device_->queue(batch, {.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true});
  times_.add(TracePhase::compute, begin_ns, monotonic_ns(), batch.size);
  advance(batch, &ahead.report.epoch_ends);
  return ahead;
}

// Not finite: the position is that before the step again.
StepOutcome Trainer::take_step(const Ahead& step, StepReport* report) {
  const PhaseScope scope(times_, TracePhase::compute);
  const DeviceReport got = device_->take();
  if (scale_) scale_ = got.scale;
  if (!got.finite) {
    position_ = step.before;
    return StepOutcome::not_finite;
  }
  *report = step.report;
  report->loss = got.loss_sum / static_cast<double>(report->examples);
  if (model_->spec().classes > 0) report->accuracy = static_cast<double>(got.correct) / static_cast<double>(report->examples);
  report->gradient_norm = got.gradient_norm;
  report->skipped = got.overflowed;
  if (scale_) report->loss_scale = static_cast<double>(scale_->scale), report->skipped_steps = scale_->skipped;
  return StepOutcome::done;
}

// The gradient of a batch without the loss scale in it; with `finite` false it is of no use.
DeviceReport Trainer::compute_on_device(const Batch& batch, const std::atomic<bool>* cancel, bool bring_home) {
  DeviceReport got;
  do {
    const StepInfo info{.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
    got = with_room(batch.size, [&] { return device_->compute(batch, info); });
    if (got.seed > 0) scale_ = got.scale;
  } while (got.overflowed && got.finite && !(cancel && *cancel));
  if (!bring_home) {
    if (got.seed > 0) device_->divide_gradient(got.seed);
    return got;
  }
  device_gradient_.resize(model_->params().block_bytes());
  device_->gradient_to_host(device_gradient_.data());
  if (got.seed > 0) math_->scale(device_gradient_.data(), 1 / got.seed, model_->params().block_elements(), device_gradient_.data());
  return got;
}

// What a hook asks for while the next step is on the device already.
void Trainer::need_no_step_ahead() const {
  if (device_->in_flight() > 0)
    throw Error(ErrorKind::usage, {.where = job_.where(),
                                   .what = "a step was asked for by who is told of one, while the run has the next one on the device",
                                   .hint = "make steps by step() alone, or stop the run first"});
}

StepOutcome Trainer::device_step_on(const Batch& batch, StepReport* report) {
  need_no_step_ahead();
  if (cancel_ && *cancel_) return StepOutcome::cancelled;
  StepOutcome outcome = StepOutcome::done;
  if (!exchange_) {
    outcome = take_step(with_room(batch.size, [&] { return queue_step(batch); }), report);
    if (outcome == StepOutcome::not_finite) device_->forget_in_flight();
  } else {
    const DeviceReport got = compute_on_device(batch, nullptr);
    if (!got.finite) return StepOutcome::not_finite;
    exchange_on_device(batch);
    *report = {.step = position_.step + 1, .epoch = batch.epoch, .examples = batch.size};
    report->loss = got.loss_sum / static_cast<double>(batch.size);
    if (model_->spec().classes > 0) report->accuracy = static_cast<double>(got.correct) / static_cast<double>(batch.size);
    report->learning_rate = optimizer_->learning_rate();
    report->gradient_norm = device_->gradient_norm();
    if (scale_) report->loss_scale = static_cast<double>(scale_->scale), report->skipped_steps = scale_->skipped;
    advance(batch, &report->epoch_ends);
  }
  return outcome;
}

void Trainer::exchange_on_device(const Batch& batch) {
  exchange(batch);
  if (exchange_error_) std::rethrow_exception(std::exchange(exchange_error_, nullptr));
  device_->update(device_gradient_.data());
  device_->commit_states();
}

// The next step is the last of the run: what is shown of the one before must not look like the end.
bool Trainer::last_step_comes() const {
  const bool steps = max_steps_ > 0 && position_.step + 1 >= max_steps_;
  return steps || (planned_examples_ > 0 && position_.examples + batch_ >= planned_examples_);
}

bool Trainer::run_ahead(const std::atomic<bool>& stop) {
  std::deque<Ahead> queued;
  try {
    return run_ahead(stop, queued);
  } catch (const std::exception&) {
    // A hook, or the data: what is on the device is finished, so that position and parameters belong together.
    try {
      for (StepReport report; !queued.empty() && device_->in_flight() > 0 && take_step(queued.front(), &report) == StepOutcome::done;)
        queued.pop_front();
      device_->forget_in_flight();
      loader_->seek(position_.epoch, position_.position);
    } catch (const Error&) {}  // of a device that is lost: the first failure says it
    throw;
  }
}

bool Trainer::run_ahead(const std::atomic<bool>& stop, std::deque<Ahead>& queued) {
  const auto take = [&](size_t leave) {
    while (queued.size() > leave) {
      const Ahead step = queued.front();
      queued.pop_front();
      StepReport report;
      if (take_step(step, &report) == StepOutcome::not_finite) {
        loader_->seek(position_.epoch, position_.position);
        throw non_finite({.epoch = step.report.epoch});
      }
      for (Hook* hook : hooks_) hook->on_step(*this, report);
      if (report.epoch_ends)
        for (Hook* hook : hooks_) hook->on_epoch(*this, report.epoch);
    }
  };
  while (!finished() && !stop) {
    if (last_step_comes()) take(0);
    times_.round = position_.step + 1;
    const Batch& batch = next_batch();
    queued.push_back(with_room(batch.size, [&] { return queue_step(batch); }));
    take(queued.back().report.epoch_ends ? 0 : DeviceStep::kInFlight - 1);
  }
  take(0);
  if (!finished()) return false;
  for (Hook* hook : hooks_) hook->on_end(*this);
  return true;
}

GradientReport Trainer::device_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) {
  need_no_step_ahead();
  const PhaseScope scope(times_, TracePhase::compute, batch.size);
  assert(target.to || model_there());
  if (target.sink && buckets_.size() > 1 && batch.size > 0 && !scale_) return device_buckets(batch, target, cancel);
  const DeviceReport got = compute_on_device(batch, cancel, target.to != nullptr);
  GradientReport report{.examples = batch.size, .loss_sum = got.loss_sum, .correct = got.correct, .finite = got.finite};
  report.cancelled = cancel && *cancel;
  if (target.to) deliver(device_gradient_.data(), target, &report);
  return report;
}

// Each bucket is told of while the GPU computes the rest.
GradientReport Trainer::device_buckets(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) {
  GradientReport report{.examples = batch.size};
  device_->start_compute(batch, {.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true});
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const int64_t elements = buckets_[b].end - buckets_[b].begin;
    const size_t begin = bytes_of(buckets_[b].begin);
    std::byte* const to = target.to + begin;
    const std::byte* const from = device_->bucket(b);
    if (target.add.empty()) std::copy(from, from + bytes_of(elements), to);
    for (size_t i = 0; i < target.add.size(); ++i) math_->add(target.add[i] + begin, i == 0 ? from : to, elements, to);
    report.finite = report.finite && math_->finite(to, elements);
    report.cancelled = report.cancelled || (cancel && *cancel);
    if (b + 1 == buckets_.size()) {  // with the last one goes what is known of the loss
      const DeviceReport got = device_->end_compute();
      report.loss_sum = got.loss_sum, report.correct = got.correct;
      report.finite = report.finite && got.finite;
    }
    if (!report.finite || report.cancelled) continue;
    target.sink->on_bucket(b);
    ++report.buckets;
  }
  return report;
}

}  // namespace perigee
