// Precision "fp16" on the host: gradients begin with the loss scale, and what overflows moves it (kernels/loss_scale.h).
#include <algorithm>
#include <cmath>

#include "src/train/host/host_engine.h"

namespace perigee {

// The seed of a batch stays 1 where nothing is scaled.
void HostEngine::set_seed(int64_t examples) {
  if (!t_.scale) return;
  seed_value_ = loss_seed(t_.scale->scale, std::max<int64_t>(examples, 1));
  seeds_.assign(static_cast<size_t>(std::max(examples, t_.batch)), seed_value_);
  overflow_ = false;
}

// By every thread, after the gradients were merged: whether the sum is not finite. `unscale`: what is, is divided by the seed.
bool HostEngine::overflows(Team& team, bool unscale) {
  const Optimizer::Range range = t_.optimizer->range(team.rank(), team.size());
  std::byte* const own = slices_[0]->gradient.data() + t_.bytes_of(range.begin);
  const int64_t n = range.end - range.begin;
  if (!(unscale ? t_.math->scale(own, 1 / static_cast<double>(seed_value_), n, own) : t_.math->finite(own, n))) overflow_ = true;
  team.barrier();
  return overflow_;
}

StepOutcome HostEngine::move_scale() {
  if (!t_.scale) return StepOutcome::done;
  if (overflow_) t_.scale->overflowed();
  else t_.scale->finite();
  return t_.scale->hopeless() ? StepOutcome::not_finite : StepOutcome::done;
}

GradientReport HostEngine::scaled_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                                           const std::atomic<bool>* cancel) {
  GradientReport report{.examples = batch.size};
  do {
    set_seed(batch.size);
    t_.team.run([&](Team& team) {
      compute_slice(team, batch, info);
      team.barrier();
      merge_gradients(team.rank(), t_.optimizer->range(team.rank(), team.size()));
      overflows(team, true);
    });
    sum_figures(&report);
    report.cancelled = cancel && *cancel;
    report.finite = std::isfinite(report.loss_sum);
    if (report.finite && !report.cancelled && batch.size > 0) report.finite = move_scale() == StepOutcome::done;
  } while (overflow_ && report.finite && !report.cancelled && batch.size > 0);
  if (t_.options.check) check_kernels(info);
  deliver(t_, slices_[0]->gradient.data(), target, &report);
  return report;
}

}  // namespace perigee
