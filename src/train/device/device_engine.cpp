#include "src/train/device/device_engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "src/train/gradient_buckets.h"

namespace perigee {

// A device updates all rows, which is what "exact" comes to; "lazy" is another thing unless the rule rests without a gradient.
void DeviceEngine::refuse_lazy_rows() const {
  Optimizer& optimizer = *t_.optimizer;
  optimizer.begin_step({});
  for (size_t i = 0; i < optimizer.windows().size(); ++i) {
    const ParamWindow& window = optimizer.windows()[i];
    if (window.rows != RowUpdate::lazy || !window.trainable || (optimizer.rests(i, 0) && optimizer.rests(i, 0.5))) continue;
    throw Error(ErrorKind::model, {.where = t_.job.where() + ": rows of '" + window.name + "'",
                                   .what = "are updated lazily by the threads of a host",
                                   .got = "a GPU, with " + std::string(optimizer.type()),
                                   .expected = "sgd without momentum or adagrad, without decay",
                                   .hint = "rows = \"exact\", or device = \"cpu\""});
  }
}

void DeviceEngine::build() {
  refuse_lazy_rows();
  with_room(t_.at_once, [&] {
    open_gpus();
    make_team();
  });
}

void DeviceEngine::open_gpus() {
  const Json* const wanted = t_.job.json().find("deterministic");
  const bool deterministic = wanted && *wanted == Json(true);
  if (!gpus_) gpus_ = std::make_unique<GpuGroup>(t_.options.devices, t_.job.where(), deterministic);
  for (size_t i = 0; i < gpus_->size(); ++i) (*gpus_)[i].queue().tf32 = t_.job.tf32();
  use_device(t_.tuning, gpus_->first(), gpus_->first().queue());
  t_.options.measure &= !deterministic;  // times are other ones in each run, and so may be what is chosen by them
  if (t_.options.measure) t_.tuning.load_machine();
  if (t_.options.tuning.is_object()) t_.tuning.adopt(t_.options.tuning);
}

void DeviceEngine::make_team() {
  if (team_) {  // its numbers are not lost with it
    fetch(Numbers::model), fetch(Numbers::slots), fetch(Numbers::average);
    fetch_loss_scale();
    carried();
    average_.reset();
    team_.reset();
  }
  if (!carried_ && !t_.model->carried().empty())
    carried_ = std::make_unique<CarriedRows>(t_.model->carried(), t_.streams), rows_here_ = true;
  plans_ = std::make_unique<PlanSet>(*t_.model, PlanSet::Kind::training, Backend::cuda, &t_.tuning);
  plans_->set_carry(Carry::stated);
  PlanSet evaluation(*t_.model, PlanSet::Kind::inference_with_loss, Backend::cuda, &t_.tuning);
  const DeviceRoom room = share_out(t_, *gpus_, *plans_, evaluation);
  team_ = std::make_unique<DeviceTeam>(*gpus_, *t_.model, &t_.slots, *plans_, *t_.optimizer, *t_.source, t_.fields(), t_.seed, t_.tuning,
                                       t_.scale ? &*t_.scale : nullptr,
                                       t_.weights->used() ? 0 : room.data_set,  // weights are looked at on the host
                                       t_.streams);
  team_->take_factors(t_.factors);
  if (t_.batch != t_.at_once) team_->keep_sums();
  if (t_.average) average_ = std::make_unique<DeviceAverage>(team_->model(), *t_.average);
  // One arena, for evaluation too if there is room: then nothing grows later.
  team_->reserve(gpus_->free_bytes() > room.need.arena() ? room.need.arena() : room.need.training);
  if (t_.options.check) team_->check_kernels();
  warn_of_missing_libraries(gpus_->first(), *plans_->plan(share_of(t_.at_once)));
  if (t_.buckets.empty() && gpus_->size() > 1) t_.buckets = cut_block(t_.model->params(), kGroupBucket);
  if (!t_.buckets.empty()) cut();
}

void DeviceEngine::cut() { team_->cut(t_.buckets); }

int DeviceEngine::measure(Loader& loader) {
  with_room(t_.at_once, [&] { team_->prepare(t_.at_once); });
  if (!t_.options.measure) return 0;
  int measured = 0;
  with_first_batch(t_, loader, t_.at_once,
                   [&](const Batch& batch) { measured = team_->measure(batch, {.seed = t_.seed, .training = true}); });
  if (measured > 0) t_.tuning.save_machine();
  return measured;
}

void DeviceEngine::retune(int64_t) { team_->choose_kernels_again(); }

// The caller may change them: they go back before the next step.
CarriedRows* DeviceEngine::carried() const {
  if (carried_ && !rows_here_) team_->rows_to_host(*carried_);
  rows_here_ = carried_ != nullptr;
  return carried_.get();
}

void DeviceEngine::send_rows() {
  if (rows_here_) team_->rows_to_device(*carried_);
  rows_here_ = false;
}

void DeviceEngine::queue(const StepTask& task) {
  send_rows();
  if (task.exchange) return exchange_step(task);
  const uint64_t begin_ns = monotonic_ns();
  t_.optimizer->begin_step(task.progress, 1.0 / task.weight);
  with_room(task.batch.size, [&] { team_->queue(task.batch, task.info); });
  t_.times.add(TracePhase::compute, begin_ns, monotonic_ns(), task.batch.size);
}

void DeviceEngine::exchange_step(const StepTask& task) {
  exchanged_ = compute(task.batch, task.info, nullptr, true);
  if (!exchanged_->finite) return;
  (*task.exchange)(gradient_, task.batch);
  team_->update(gradient_.data());
  team_->commit_states();
  exchanged_->gradient_norm = team_->gradient_norm();
}

StepOutcome DeviceEngine::take(StepFigures* figures) {
  DeviceReport got;
  if (exchanged_) {
    got = *std::exchange(exchanged_, std::nullopt);
  } else {
    const PhaseScope scope(t_.times, TracePhase::compute);
    got = team_->take();
    if (t_.scale) t_.scale = got.scale;
  }
  *figures = {.loss_sum = got.loss_sum, .correct = got.correct, .gradient_norm = got.gradient_norm, .overflowed = got.overflowed};
  return got.finite ? StepOutcome::done : StepOutcome::not_finite;
}

void DeviceEngine::drop_queued() {
  exchanged_.reset();
  team_->forget_in_flight();
}

std::string DeviceEngine::find_non_finite() {
  std::string found = team_->find_non_finite();
  team_->forget_in_flight();
  return found;
}

// The gradient of a batch without the loss scale in it, in gradient_ or on the device; where it is not finite it is of no use.
DeviceReport DeviceEngine::compute(const Batch& batch, const StepInfo& info, const std::atomic<bool>* cancel, bool bring_home) {
  DeviceReport got;
  do {
    got = with_room(batch.size, [&] { return team_->compute(batch, info); });
    if (got.seed > 0) t_.scale = got.scale;
  } while (got.overflowed && got.finite && !(cancel && *cancel));
  if (!bring_home) {
    if (got.seed > 0) team_->divide_gradient(got.seed);
    return got;
  }
  gradient_.resize(t_.model->params().block_bytes());
  team_->gradient_to_host(gradient_.data());
  if (got.seed > 0) t_.math->scale(gradient_.data(), 1 / got.seed, t_.model->params().block_elements(), gradient_.data());
  return got;
}

GradientReport DeviceEngine::sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                                          const std::atomic<bool>* cancel) {
  const PhaseScope scope(t_.times, TracePhase::compute, batch.size);
  assert(target.to || gpus_->size() == 1);
  if (target.sink && t_.buckets.size() > 1 && batch.size > 0 && !t_.scale) return sum_buckets(batch, info, target, cancel);
  const DeviceReport got = compute(batch, info, cancel, target.to != nullptr);
  GradientReport report{.examples = batch.size, .loss_sum = got.loss_sum, .correct = got.correct, .finite = got.finite};
  report.cancelled = cancel && *cancel;
  if (target.to) deliver(t_, gradient_.data(), target, &report);
  return report;
}

GradientReport DeviceEngine::add_gradient(const Batch& batch, const StepInfo& info, bool first, bool last,
                                          const std::atomic<bool>* cancel) {
  const PhaseScope scope(t_.times, TracePhase::compute, batch.size);
  const DeviceReport got = compute(batch, info, cancel, false);
  if (got.finite) team_->add_to_sum(first, last);
  return {.examples = batch.size, .loss_sum = got.loss_sum, .correct = got.correct, .finite = got.finite, .cancelled = cancel && *cancel};
}

// Each bucket is told of while the GPU computes the rest.
GradientReport DeviceEngine::sum_buckets(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                                         const std::atomic<bool>* cancel) {
  GradientReport report{.examples = batch.size};
  team_->start_compute(batch, info);
  for (size_t b = 0; b < t_.buckets.size(); ++b) {
    const int64_t elements = t_.buckets[b].end - t_.buckets[b].begin;
    const size_t begin = t_.bytes_of(t_.buckets[b].begin);
    std::byte* const to = target.to + begin;
    const std::byte* const from = team_->bucket(b);
    if (target.add.empty()) std::copy(from, from + t_.bytes_of(elements), to);
    for (size_t i = 0; i < target.add.size(); ++i) t_.math->add(target.add[i] + begin, i == 0 ? from : to, elements, to);
    report.finite = report.finite && t_.math->finite(to, elements);
    report.cancelled = report.cancelled || (cancel && *cancel);
    if (b + 1 == t_.buckets.size()) {  // with the last one goes what is known of the loss
      const DeviceReport got = team_->end_compute();
      report.loss_sum = got.loss_sum, report.correct = got.correct;
      report.finite = report.finite && got.finite;
    }
    if (!report.finite || report.cancelled) continue;
    target.sink->on_bucket(b);
    ++report.buckets;
  }
  return report;
}

DeviceMemory DeviceEngine::planned_memory(int64_t) const {
  return planned_device_memory(t_, perigee::share_of(*gpus_, t_.at_once), team_->resident());
}

DeviceMemory DeviceEngine::device_memory() const {
  DeviceMemory held = team_->memory();
  if (average_) held.average = average_->bytes();
  return held;
}

void DeviceEngine::fetch(Numbers numbers) const {
  DeviceModel& model = team_->model();
  if (numbers == Numbers::average) {
    if (average_) average_->to_host();
  } else if (numbers == Numbers::model) model.to_host();
  else if (numbers == Numbers::states) model.states_to_host();
  else model.slots_to_host();
}

void DeviceEngine::host_changed(Numbers numbers) {
  if (!team_) return;  // it will begin with the host's
  if (numbers == Numbers::average) average_->host_changed();
  else if (numbers == Numbers::model) team_->host_changed();
  else if (numbers == Numbers::states) team_->host_changed_states();
  else team_->host_changed_slots();
}

void DeviceEngine::fetch_loss_scale() const {
  if (t_.scale) t_.scale = team_->loss_scale();
}

void DeviceEngine::loss_scale_changed() {
  if (team_) team_->set_loss_scale(*t_.scale);
}

}  // namespace perigee
