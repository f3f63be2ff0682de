// "accumulate" where a batch cannot grow: something looks at it as a whole (statistics of batch norm, losses of a whole batch), or the plans of
// GPUs hold one. Each batch goes through the plans alone, and the gradients are added up in their order.
#include <algorithm>
#include <utility>

#include "src/train/trainer.h"

namespace perigee {

void Trainer::make_parts() {
  if (engine_->most_at_once() == t_.batch) return;
  const Params& params = t_.model->params();
  parts_ =
      std::make_unique<Parts>(Parts{.sum = {}, .states = std::vector<std::byte>(params.state_bytes().size()), .batch = {}, .figures = {}});
  if (!engine_->adds_up()) cut_gradient(params.block_bytes());
}

// Rows of `batch`; valid until the next call.
const Batch& Trainer::part_of(const Batch& batch, int64_t begin, int64_t size) {
  Batch& part = parts_->batch;
  part.epoch = batch.epoch, part.position = batch.position + begin, part.size = size;
  part.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + begin + size);
  part.fields.resize(batch.fields.size());
  for (size_t f = 0; f < batch.fields.size(); ++f) {
    const Tensor& whole = batch.fields[f];
    const size_t row = whole.bytes() / static_cast<size_t>(whole.shape()[0]);
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(whole.view().data) - whole.storage()->data());
    part.fields[f] = Tensor(whole.storage(), offset + static_cast<size_t>(begin) * row, whole.dtype(), whole.shape().with(0, size));
  }
  return part;
}

// False when the sum is of no use; the outcome says why.
bool Trainer::add_part(const StepTask& task, int64_t begin, int64_t size) {
  Parts& parts = *parts_;
  const Batch& part = part_of(task.batch, begin, size);
  GradientReport got;
  if (adds_up_there(task)) {
    got = engine_->add_gradient(part, task.info, begin == 0, begin + size == task.batch.size, task.cancel);
  } else {
    const std::byte* const sum = parts.sum->data();
    GradientTarget target{.to = parts.sum->data()};
    if (begin > 0) target.add = {&sum, 1};
    got = engine_->sum_gradient(part, task.info, target, task.cancel);
  }
  if (got.cancelled) parts.outcome = StepOutcome::cancelled;
  else if (!got.finite) parts.outcome = StepOutcome::not_finite;
  if (parts.outcome != StepOutcome::done) return false;
  engine_->commit_states();
  parts.figures.loss_sum += got.loss_sum;
  parts.figures.correct += got.correct;
  return true;
}

// A worker whose share of a global batch is more than its own batches takes the share in as many parts.
void Trainer::step_in_parts(const StepTask& task) {
  Parts& parts = *parts_;
  parts.figures = {};
  parts.outcome = StepOutcome::done;
  const bool there = adds_up_there(task);
  if (!there && !parts.sum) parts.sum = Storage(t_.model->params().block_bytes());
  const std::span<const std::byte> states = std::as_const(*this).states();
  std::copy(states.begin(), states.end(), parts.states.begin());
  const int64_t count = t_.batch / t_.at_once, at_once = std::max(t_.at_once, (task.batch.size + count - 1) / count);
  for (int64_t begin = 0; begin < task.batch.size; begin += at_once)
    if (!add_part(task, begin, std::min(at_once, task.batch.size - begin))) {
      const std::span<std::byte> back = this->states();
      std::copy(parts.states.begin(), parts.states.end(), back.begin());
      return;
    }
  engine_->commit_carried();
  t_.optimizer->begin_step(task.progress, 1.0 / task.weight);
  if (task.exchange) (*task.exchange)({parts.sum->data(), parts.sum->bytes()}, task.batch);
  const PhaseScope scope(t_.times, TracePhase::update);
  parts.figures.gradient_norm = engine_->update(there ? nullptr : parts.sum->data());
}

}  // namespace perigee
