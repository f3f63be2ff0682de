// The order of a run: batches into the engine, figures out of it, hooks, progress.
#include <algorithm>
#include <cassert>
#include <utility>

#include "src/train/line_steps.h"
#include "src/train/trainer.h"

namespace perigee {

void Trainer::add_hook(Hook* hook) {
  hooks_.push_back(hook);
  if (!exchange_ && hook->wants_gradient())
    exchange_ = [this](std::span<std::byte> gradient, const Batch& batch) { exchange(gradient, batch); };
}

void Trainer::exchange(std::span<std::byte> gradient, const Batch& batch) {
  int64_t examples = batch.size;
  if (t_.weights->used())
    t_.math->scale(gradient.data(), static_cast<double>(examples) / weight_of(batch), t_.model->params().block_elements(), gradient.data());
  for (Hook* hook : hooks_)
    if (hook->wants_gradient()) hook->on_gradient(*this, gradient, examples);
  t_.optimizer->begin_step(step_progress(), 1.0 / static_cast<double>(examples));
}

StepInfo Trainer::step_info(const Batch& batch) const {
  return {.seed = t_.seed, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
}

StepProgress Trainer::step_progress() const {
  const double committed = static_cast<double>(position_.examples - origin_.examples);
  const int64_t planned = planned_examples_ - origin_.examples;
  return {.progress = planned_examples_ > 0 ? std::min(1.0, committed / static_cast<double>(planned)) : 0,
          .epoch = committed / static_cast<double>(t_.source->size()),
          .step = position_.step - origin_.step,
          .skipped = t_.scale ? t_.scale->skipped : 0};
}

double Trainer::next_learning_rate() const { return t_.optimizer->learning_rate_at(step_progress()); }

const Batch& Trainer::next_batch() {
  const PhaseScope scope(t_.times, TracePhase::load);
  return loader_->next();
}

void Trainer::advance(const Batch& batch, bool* epoch_ends) {
  position_.step += 1;
  position_.examples += batch.size;
  position_.epoch = batch.epoch;
  position_.position = batch.position + batch.size;
  *epoch_ends = position_.position >= t_.source->size();
  if (*epoch_ends) {
    position_.epoch += 1;
    position_.position = 0;
  }
}

// Kernels make NaN of a label that is no class, from which nobody could tell the example.
void Trainer::check_choices(const Batch& batch) const {
  t_.choices->check(batch, [&] { return t_.step_name(static_cast<uint64_t>(position_.step)); });
}

// The sum of its gradient is divided by this.
double Trainer::weight_of(const Batch& batch) const {
  return t_.weights->sum(batch, [&] { return t_.step_name(static_cast<uint64_t>(position_.step)); });
}

Trainer::Queued Trainer::queue_step(const Batch& batch, const std::atomic<bool>* cancel) {
  check_choices(batch);
  const double weight = weight_of(batch);
  if (weight == 0)
    throw Error(ErrorKind::data, {.where = t_.step_name(static_cast<uint64_t>(position_.step)),
                                  .what = "nothing in the batch counts: its lengths, masks or weights are all 0",
                                  .got = std::to_string(batch.size) + " examples from number " + std::to_string(batch.ids[0]),
                                  .expected = "at least one step of one example",
                                  .hint = "leave such examples out, or take larger batches"});
  Queued step{.report = {.step = position_.step + 1, .epoch = batch.epoch, .examples = batch.size, .weight = weight},
              .before = position_,
              .averaged_before = t_.average ? t_.average->count() : 0};
  const StepTask task{.batch = batch,
                      .info = step_info(batch),
                      .progress = step_progress(),
                      .weight = weight,
                      .exchange = exchange_ ? &exchange_ : nullptr,
                      .cancel = cancel};
  t_.factors.set(task.progress, batch.size);
  if (lines_) lines_->step(task);
  else if (parts_) step_in_parts(task);
  else if (turns_) turn_outcome_ = turns_->step(task, *engine_, &turn_figures_);
  else engine_->queue(task);
  step.report.learning_rate = t_.optimizer->learning_rate();
  advance(batch, &step.report.epoch_ends);
  if (averages_ahead()) add_to_average(step.report);
  return step;
}

// Unless it is done, the position is that before the step again.
StepOutcome Trainer::take_step(const Queued& step, StepReport* report) {
  StepFigures figures;
  if (parts_) figures = parts_->figures;
  if (lines_) figures = lines_->figures();
  if (turns_) figures = turn_figures_;
  const StepOutcome outcome = lines_ ? lines_->outcome() : parts_ ? parts_->outcome : turns_ ? turn_outcome_ : engine_->take(&figures);
  if (outcome != StepOutcome::done) {
    position_ = step.before;
    if (t_.average) t_.average->begin_again(step.averaged_before);
    return outcome;
  }
  *report = step.report;
  report->loss = figures.loss_sum / report->weight;
  if (t_.model->spec().classes > 0) report->accuracy = static_cast<double>(figures.correct) / static_cast<double>(report->examples);
  report->gradient_norm = figures.gradient_norm;
  report->skipped = figures.overflowed;
  if (lines_) report->evaluations = lines_->evaluations();
  if (turns_) report->objectives = turns_->reports();
  if (!averages_ahead() && !report->skipped) add_to_average(*report);
  if (t_.scale) report->loss_scale = static_cast<double>(t_.scale->scale), report->skipped_steps = t_.scale->skipped;
  return outcome;
}

// Where steps run ahead the average does so too, behind each. A step that may be skipped is looked at first: it does not count.
bool Trainer::averages_ahead() const { return t_.average && depth() > 1; }

void Trainer::add_to_average(const StepReport& report) {
  if (averages_results_) return;
  average_numbers(report.step - origin_.step, static_cast<int64_t>(report.epoch - origin_.epoch) + 1, report.epoch_ends);
}

void Trainer::average_numbers(int64_t step, int64_t epoch, bool epoch_ends) {
  if (!t_.average || !t_.average->counts(step, epoch, epoch_ends)) return;
  const PhaseScope scope(t_.times, TracePhase::update);
  if (engine_->averages()) engine_->add_to_average(t_.average->next_share());
  else t_.average->add(std::as_const(*this).model().params(), t_.team);
}

// A hook asks for a step while the run has the next one queued already.
void Trainer::need_no_step_ahead() const {
  if (!queued_.empty())
    throw Error(ErrorKind::usage, {.where = t_.job.where(),
                                   .what = "a step was asked for by who is told of one, while the run has the next one on the device",
                                   .hint = "make steps by step() alone, or stop the run first"});
}

StepOutcome Trainer::try_step(const Batch& batch, StepReport* report, const std::atomic<bool>* cancel) {
  need_no_step_ahead();
  if (cancel && *cancel) return StepOutcome::cancelled;
  const StepOutcome outcome = take_step(queue_step(batch, cancel), report);
  if (outcome == StepOutcome::not_finite) engine_->drop_queued();
  return outcome;
}

StepReport Trainer::step(const std::atomic<bool>* cancel) {
  need_no_step_ahead();  // before a batch is taken
  t_.times.round = position_.step + 1;
  const Batch& batch = next_batch();
  StepReport report;
  const StepOutcome outcome = try_step(batch, &report, cancel);
  if (outcome == StepOutcome::not_finite) throw non_finite();
  if (outcome == StepOutcome::cancelled) loader_->seek(position_.epoch, position_.position);  // the batch comes again
  return report;
}

StepReport Trainer::step(const Batch& batch) {
  StepReport report;
  if (try_step(batch, &report, nullptr) == StepOutcome::not_finite) throw non_finite();
  return report;
}

GradientReport Trainer::sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel, size_t objective) {
  assert(batch.size >= 0);
  need_no_step_ahead();
  assert(!parts_ || batch.size <= t_.at_once);  // check_steps() of a cluster's job refuses steps in parts
  check_choices(batch);
  if (t_.buckets.empty()) cut_gradient(t_.model->params().block_bytes());
  const double weight = weight_of(batch);
  if (turns_) turns_->set_factors(objective, step_progress(), batch.size);
  else t_.factors.set(step_progress(), batch.size);
  GradientReport report = engine_of(objective).sum_gradient(batch, step_info(batch), target, cancel);
  report.weight = weight;
  return report;
}

StepEngine& Trainer::engine_of(size_t objective) { return objective == 0 ? *engine_ : turns_->engine(objective); }

void Trainer::commit_states(size_t objective) { engine_of(objective).commit_states(); }

void Trainer::update(const std::byte* gradient_sum, double weight) {
  assert((gradient_sum || device_gradient()) && weight > 0);
  const PhaseScope scope(t_.times, TracePhase::update);
  t_.optimizer->begin_step(step_progress(), 1.0 / weight);
  engine_->update(gradient_sum);
  count_step();
}

void Trainer::update_objective(size_t objective, const std::byte* gradient_sum, double weight) {
  assert(turns_ && weight > 0);
  const PhaseScope scope(t_.times, TracePhase::update);
  turns_->optimizer(objective).begin_step(turns_->progress(objective, step_progress()), 1.0 / weight);
  engine_of(objective).update(gradient_sum);
}

Error Trainer::non_finite() {
  const std::string culprit = parts_ ? "" : engine_->find_non_finite();
  const std::string where = t_.step_name(static_cast<uint64_t>(position_.step));
  if (t_.scale && t_.scale->hopeless())
    return Error(
        ErrorKind::model,
        {.where = where,
         .what = "the gradient is not finite, whatever the loss scale",
         .got = std::to_string(t_.scale->bad) + " steps in a row, the last with a scale of " + Json(double(t_.scale->scale)).dump(),
         .hint = t_.scale->dynamic ? "the parameters are those before these steps; try precision = \"bf16\" or \"float32\""
                                   : "the parameters are those before these steps; try loss_scale = \"dynamic\" or a smaller one"});
  return Error(ErrorKind::model,
               {.where = where,
                .what = "the loss is not finite",
                .got = culprit.empty() ? "NaN or infinity in the loss" : "the first NaN or infinity in " + culprit,
                .hint = "the parameters are those of the step before; try a smaller learning rate, clip = { type = \"norm\" }, or look at "
                        "the input data"});
}

bool Trainer::run(const std::atomic<bool>& stop) {
  for (Hook* hook : hooks_) hook->on_start(*this);
  try {
    if (!run_steps(stop)) return false;
  } catch (const std::exception&) {
    finish_queued();
    throw;
  }
  for (Hook* hook : hooks_) hook->on_end(*this);
  return true;
}

// So many steps are on their way at once.
size_t Trainer::depth() const { return exchange_ || parts_ || turns_ || lines_ || (t_.average && t_.scale) ? 1 : engine_->depth(); }

// False when it was stopped.
bool Trainer::run_steps(const std::atomic<bool>& stop) {
  const size_t ahead = depth() - 1;
  while (!finished() && !stop) {
    if (last_step_comes() && !take_queued(0)) return false;
    t_.times.round = position_.step + 1;
    const Batch& batch = next_batch();
    queued_.push_back(queue_step(batch, &stop));
    if (!take_queued(queued_.back().report.epoch_ends ? 0 : ahead)) return false;
  }
  return take_queued(0) && finished();
}

// The next step is the last of the run: what is shown of the one before must not look like the end.
bool Trainer::last_step_comes() const {
  const bool steps = max_steps_ > 0 && position_.step + 1 >= max_steps_;
  return steps || (planned_examples_ > 0 && position_.examples + t_.batch >= planned_examples_);
}

// Takes steps until so many are left. False when one was dropped: its batch comes again.
bool Trainer::take_queued(size_t leave) {
  while (queued_.size() > leave) {
    const Queued step = queued_.front();
    queued_.erase(queued_.begin());
    StepReport report;
    const StepOutcome outcome = take_step(step, &report);
    if (outcome != StepOutcome::done) loader_->seek(position_.epoch, position_.position);
    if (outcome == StepOutcome::cancelled) return false;
    if (outcome == StepOutcome::not_finite) {
      queued_.clear();  // they changed nothing
      throw non_finite();
    }
    tell(report);
  }
  return true;
}

void Trainer::tell(const StepReport& report) {
  for (Hook* hook : hooks_) hook->on_step(*this, report);
  if (report.epoch_ends)
    for (Hook* hook : hooks_) hook->on_epoch(*this, report.epoch);
}

// After a failure of a hook or of the data: what the engine has is finished, so that position and parameters belong together.
void Trainer::finish_queued() {
  try {
    StepReport report;
    while (!queued_.empty() && take_step(queued_.front(), &report) == StepOutcome::done) queued_.erase(queued_.begin());
    engine_->drop_queued();
    if (!t_.source->traits().live) loader_->seek(position_.epoch, position_.position);
  } catch (const Error&) {}  // of a device that is lost: the first failure says it
  queued_.clear();
}

}  // namespace perigee
