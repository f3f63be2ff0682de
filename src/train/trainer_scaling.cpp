// Trainer in f16: gradients begin with the loss scale, and what overflows moves it (kernels/loss_scale.h).
#include <cassert>
#include <cmath>

#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {

const LossScale* Trainer::loss_scale() const {
  if (!scale_) return nullptr;
  if (device_) scale_ = device_->loss_scale();
  return &*scale_;
}

void Trainer::set_loss_scale(const LossScale& scale) {
  assert(scale_);
  scale_ = scale;
  if (device_) device_->set_loss_scale(scale);
}

// Of a batch; 1 where nothing is scaled.
void Trainer::set_seed(int64_t examples) {
  if (!scale_) return;
  seed_value_ = loss_seed(scale_->scale, std::max<int64_t>(examples, 1));
  seeds_.assign(static_cast<size_t>(std::max(examples, batch_)), seed_value_);
  overflow_ = false;
}

// By every thread, after the gradients were merged: whether the sum is not finite. `unscale`: what is, is divided by the seed.
bool Trainer::overflows(Team& team, bool unscale) {
  const Optimizer::Range range = optimizer_->range(team.rank(), team.size());
  std::byte* const own = workers_[0]->gradient.data() + bytes_of(range.begin);
  const int64_t n = range.end - range.begin;
  if (!(unscale ? math_->scale(own, 1 / static_cast<double>(seed_value_), n, own) : math_->finite(own, n))) overflow_ = true;
  team.barrier();
  return overflow_;
}

StepOutcome Trainer::move_scale() {
  if (!scale_) return StepOutcome::done;
  if (overflow_) scale_->overflowed();
  else scale_->finite();
  return scale_->hopeless() ? StepOutcome::not_finite : StepOutcome::done;
}

GradientReport Trainer::scaled_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) {
  cancel_ = cancel;
  const StepInfo base{.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
  prepare(batch.size);
  const PhaseScope scope(times_, TracePhase::compute, batch.size);
  GradientReport report{.examples = batch.size};
  do {
    set_seed(batch.size);
    team_.run([&](Team& team) {
      compute_slice(team, batch, base);
      team.barrier();
      merge_gradients(team.rank(), optimizer_->range(team.rank(), team.size()));
      overflows(team, true);
    });
    report.loss_sum = 0, report.correct = 0;
    for (const auto& worker : workers_) report.loss_sum += worker->loss_sum, report.correct += worker->correct;
    report.cancelled = cancel && *cancel;
    report.finite = std::isfinite(report.loss_sum);
    if (report.finite && !report.cancelled && batch.size > 0) report.finite = move_scale() == StepOutcome::done;
  } while (overflow_ && report.finite && !report.cancelled && batch.size > 0);
  if (options_.check) check_kernels();
  deliver(workers_[0]->gradient.data(), target, &report);
  return report;
}

// A whole gradient goes where it belongs, all buckets at once.
void Trainer::deliver(const std::byte* gradient, const GradientTarget& target, GradientReport* report) const {
  const int64_t elements = model_->params().block_elements();
  if (target.add.empty()) std::copy(gradient, gradient + bytes_of(elements), target.to);
  for (size_t i = 0; i < target.add.size(); ++i) math_->add(target.add[i], i == 0 ? gradient : target.to, elements, target.to);
  report->finite = report->finite && math_->finite(target.to, elements);
  if (!report->finite || report->cancelled || !target.sink) return;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) target.sink->on_bucket(bucket);
  report->buckets = buckets_.size();
}

}  // namespace perigee
