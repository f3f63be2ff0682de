// One step: slices through their plans, gradients together, the update.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/tensor/bytes.h"
#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {
namespace {

// How many rows of `output` [N, C] are largest at their label.
int64_t count_correct(const BlockMath& math, const View& output, const int64_t* labels) {
  if (output.rank != 2 || output.dtype != math.dtype || !output.contiguous()) return 0;
  int64_t correct = 0;
  const size_t row_bytes = static_cast<size_t>(output.dims[1]) * dtype_bytes(math.dtype);
  for (int64_t n = 0; n < output.dims[0]; ++n)
    correct += math.largest(output.as<std::byte>() + static_cast<size_t>(n) * row_bytes, output.dims[1]) == labels[n];
  return correct;
}

}  // namespace

void Trainer::prepare(int64_t examples) {
  if (examples == prepared_) return;
  // Slices that run in step with each other must not be empty.
  const int parts = !sliceable_ || (collective_ && examples < team_.size()) ? 1 : team_.size();
  in_step_ = collective_ && parts > 1;
  for (int rank = 0; rank < team_.size(); ++rank) {
    Worker& worker = *workers_[static_cast<size_t>(rank)];
    worker.begin = rank < parts ? examples * rank / parts : 0;
    worker.end = rank < parts ? examples * (rank + 1) / parts : 0;
    worker.full.run = worker.rest.run = nullptr;
    if (worker.begin == worker.end) continue;
    worker.full_size = sub_batch_for(worker.end - worker.begin);
    const int64_t left = (worker.end - worker.begin) % worker.full_size;
    // Twice: a plan that needs a larger arena unbinds the others.
    for (int round = 0; round < 2; ++round) {
      worker.full = bind_plan(worker.memory->at(worker.full_size));
      if (left > 0) worker.rest = bind_plan(worker.memory->at(left));
    }
  }
  prepared_ = examples;
}

Trainer::BoundPlan Trainer::bind_plan(PlanRun& run) const {
  BoundPlan bound{.run = &run, .loss = run.output_index("loss"), .output = run.output_index("output")};
  for (const NetworkInput& input : model_->spec().inputs) bound.inputs.push_back(run.plan().input_index(input.name));
  bound.inputs.push_back(run.plan().input_index(model_->spec().target.name));
  if (buckets_.size() > 1) bound.marks = marks_of(run.plan());
  for (const LossHead& head : model_->spec().more_heads) bound.inputs.push_back(run.plan().input_index(head.target.name));
  bound.seed = run.plan().input_index(kLossSeed);
  return bound;
}

void Trainer::bind_rows(const BoundPlan& plan, const Batch& batch, int64_t row) const {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const auto field = static_cast<size_t>(i < input_fields_.size() ? input_fields_[i] : target_fields_[i - input_fields_.size()]);
    const auto base = static_cast<const std::byte*>(batch.fields[field].view().data);
    if (plan.inputs[i] >= 0) plan.run->set_input(plan.inputs[i], base + static_cast<size_t>(row) * byte_size(train_->fields()[field]));
  }
  if (plan.seed >= 0) plan.run->set_input(plan.seed, seeds_.data());
}

void Trainer::compute_slice(Team& team, const Batch& batch, const StepInfo& base, Gathering* gathering) {
  Worker& worker = *workers_[static_cast<size_t>(team.rank())];
  worker.loss_sum = 0;
  worker.correct = 0;
  worker.gathered = 0;
  if (worker.begin == worker.end) {  // nothing to add, but its block is part of the sum
    std::memset(worker.gradient.data(), 0, worker.gradient.bytes());
    return;
  }
  const Tensor& target = batch.fields[static_cast<size_t>(target_fields_[0])];
  const bool labels = model_->spec().classes > 0 && target.dtype() == Dtype::i64;
  worker.full.run->pack();
  if (worker.rest.run) worker.rest.run->pack();
  for (int64_t row = worker.begin; row < worker.end;) {
    if (cancel_ && !collective_ && *cancel_) return;  // the step is dropped before its update
    const int64_t n = std::min(worker.full_size, worker.end - row);
    const BoundPlan& plan = n == worker.full_size ? worker.full : worker.rest;
    bind_rows(plan, batch, row);
    StepInfo info = base;
    info.example_ids = batch.ids.data() + row;
    if (gathering && row + n == worker.end) run_with_marks(team, plan, info, row > worker.begin, *gathering);
    else plan.run->run(in_step_ ? &team : nullptr, info, row > worker.begin);
    worker.loss_sum = math_->sum(plan.run->output(plan.loss).data, n, worker.loss_sum);
    if (labels) worker.correct += count_correct(*math_, plan.run->output(plan.output), target.data<int64_t>() + row);
    row += n;
  }
}

Error Trainer::non_finite(const Batch& batch) {
  const StepInfo base{.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
  std::string culprit;
  if (device_) culprit = device_->find_non_finite(), device_->forget_in_flight();
  for (const auto& worker : workers_) {
    for (int64_t row = worker->begin; row < worker->end && culprit.empty(); row += worker->full_size) {
      const BoundPlan& plan = worker->end - row >= worker->full_size ? worker->full : worker->rest;
      bind_rows(plan, batch, row);
      StepInfo info = base;
      info.example_ids = batch.ids.data() + row;
      culprit = plan.run->find_non_finite(info);
    }
  }
  if (scale_ && scale_->hopeless())
    return Error(ErrorKind::model,
                 {.where = job_.where() + ": step " + std::to_string(position_.step + 1),
                  .what = "the gradient is not finite, whatever the loss scale",
                  .got = std::to_string(scale_->bad) + " steps in a row, the last with a scale of " + Json(double(scale_->scale)).dump(),
                  .hint = scale_->dynamic ? "the parameters are those before these steps; try precision = \"bf16\" or \"float32\""
                                          : "the parameters are those before these steps; try loss_scale = \"dynamic\" or a smaller one"});
  return Error(ErrorKind::model,
               {.where = job_.where() + ": step " + std::to_string(position_.step + 1),
                .what = "the loss is not finite",
                .got = culprit.empty() ? "NaN or infinity in the loss" : "the first NaN or infinity in " + culprit,
                .hint = "the parameters are those of the step before; try a smaller learning rate, clip = {norm = 1}, or look at "
                        "the input data"});
}

const std::byte* Trainer::sum_gradients(Worker& worker, size_t first, size_t span, size_t buffer, Optimizer::Range chunk) const {
  if (span == 1) return workers_[first]->gradient.data() + bytes_of(chunk.begin);
  const size_t half = span / 2, deeper = buffer / 2 * 2 + 2;
  const std::byte* left = sum_gradients(worker, first, half, deeper, chunk);
  if (first + half >= workers_.size()) return left;
  const std::byte* right = sum_gradients(worker, first + half, half, deeper + 1, chunk);
  std::byte* sum = worker.sums.data() + buffer * bytes_of(kUpdateChunk);
  math_->add(left, right, chunk.end - chunk.begin, sum);
  return sum;
}

void Trainer::merge_gradients(int rank, Optimizer::Range range) {
  if (workers_.size() == 1) return;
  std::byte* block = workers_[0]->gradient.data();
  for_each_chunk(range, [&](Optimizer::Range chunk) {
    const std::byte* sum = sum_gradients(*workers_[static_cast<size_t>(rank)], 0, std::bit_ceil(workers_.size()), 0, chunk);
    std::memcpy(block + bytes_of(chunk.begin), sum, bytes_of(chunk.end - chunk.begin));
  });
}

StepProgress Trainer::step_progress() const {
  const double committed = static_cast<double>(position_.examples);
  return {.progress = planned_examples_ > 0 ? std::min(1.0, committed / static_cast<double>(planned_examples_)) : 0,
          .epoch = committed / static_cast<double>(train_->size()),
          .step = position_.step,
          .skipped = scale_ ? scale_->skipped : 0};
}

void Trainer::begin_update(int64_t examples, double seed) {
  optimizer_->begin_step(step_progress(), 1.0 / static_cast<double>(examples) * (1 / seed));
}

double Trainer::next_learning_rate() const { return optimizer_->learning_rate_at(step_progress()); }

// Between two barriers, on one thread: nothing may leave it but by `exchange_error_`.
void Trainer::exchange(const Batch& batch) {
  try {
    int64_t examples = batch.size;
    const std::span<std::byte> gradient = device_ ? std::span<std::byte>(device_gradient_)
                                                  : std::span<std::byte>(workers_[0]->gradient.data(), workers_[0]->gradient.bytes());
    for (Hook* hook : hooks_)
      if (hook->wants_gradient()) hook->on_gradient(*this, gradient, examples);
    begin_update(examples);
  } catch (const std::exception&) {
    exchange_error_ = std::current_exception();
  }
}

void Trainer::commit_states() {
  if (device_) return device_->commit_states();
  const Worker& worker = *workers_[0];
  PlanRun* last = worker.rest.run ? worker.rest.run : worker.full.run;
  if (last) last->commit_states();
}

// `gradient` null: each chunk is summed over the threads just before its update.
void Trainer::update_slice(Team& team, const std::byte* gradient) {
  const Optimizer::Range range = optimizer_->range(team.rank(), team.size());
  if (optimizer_->needs_norms()) {
    optimizer_->measure(range, gradient);
    team.barrier();
    if (team.rank() == 0) optimizer_->finish_norms();
    team.barrier();
  }
  std::byte* parameters = model_->params().block();
  if (gradient) {
    optimizer_->update(range, parameters, gradient, slot_pointers_.data());
  } else {
    for_each_chunk(range, [&](Optimizer::Range chunk) {
      const std::byte* sum = sum_gradients(*workers_[static_cast<size_t>(team.rank())], 0, std::bit_ceil(workers_.size()), 0, chunk);
      optimizer_->update_chunk(chunk, parameters, sum, slot_pointers_.data());
    });
  }
  if (optimizer_->has_constraints()) {
    team.barrier();
    optimizer_->constrain(team.rank(), team.size(), model_->params().block());
  }
}

StepOutcome Trainer::step_on(const Batch& batch, StepReport* report) {
  if (device_) return device_step_on(batch, report);
  for (;;)
    if (const std::optional<StepOutcome> outcome = attempt(batch, report)) return *outcome;
}

std::optional<StepOutcome> Trainer::attempt(const Batch& batch, StepReport* report) {
  set_seed(batch.size);
  begin_update(batch.size, static_cast<double>(seed_value_));
  const StepInfo base{.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
  prepare(batch.size);
  std::atomic<bool> finite{true};
  bool cancelled = false;
  const uint64_t begin_ns = monotonic_ns();
  uint64_t computed_ns = begin_ns, exchanged_ns = 0;
  team_.run([&](Team& team) {
    compute_slice(team, batch, base);
    team.barrier();
    if (team.rank() == 0) computed_ns = monotonic_ns(), cancelled = cancel_ && *cancel_;
    team.barrier();
    if (cancelled) return;
    double sum = 0;
    for (const auto& worker : workers_) sum += worker->loss_sum;
    if (!std::isfinite(sum)) {
      finite = false;  // every thread sees the same sum and leaves
      return;
    }
    if (merges_first()) merge_gradients(team.rank(), optimizer_->range(team.rank(), team.size()));
    if (scale_ && overflows(team, exchange_)) return;
    if (exchange_) {
      team.barrier();
      if (team.rank() == 0) exchange(batch), exchanged_ns = monotonic_ns();
      team.barrier();
      if (exchange_error_) return;
    }
    update_slice(team, merges_first() ? workers_[0]->gradient.data() : nullptr);
    if (team.rank() == 0) commit_states();
  });
  times_.add(TracePhase::compute, begin_ns, computed_ns, batch.size);
  if (exchanged_ns != 0) times_.add(TracePhase::exchange, computed_ns, exchanged_ns);
  times_.add(TracePhase::update, std::max(computed_ns, exchanged_ns), monotonic_ns());
  if (exchange_error_) std::rethrow_exception(std::exchange(exchange_error_, nullptr));
  if (options_.check) check_kernels();
  if (cancelled) return StepOutcome::cancelled;
  if (!finite || move_scale() == StepOutcome::not_finite) return StepOutcome::not_finite;
  if (overflow_ && exchange_) return std::nullopt;
  if (overflow_) ++scale_->skipped;
  *report = report_of(batch);
  advance(batch, &report->epoch_ends);
  return StepOutcome::done;
}

void Trainer::advance(const Batch& batch, bool* epoch_ends) {
  position_.step += 1;
  position_.examples += batch.size;
  position_.epoch = batch.epoch;
  position_.position = batch.position + batch.size;
  *epoch_ends = position_.position >= train_->size();
  if (*epoch_ends) {
    position_.epoch += 1;
    position_.position = 0;
  }
}

void Trainer::check_kernels() const {
  for (const auto& worker : workers_)
    for (const PlanRun* run : {worker->full.run, worker->rest.run})
      if (run && !run->check_failure().empty())
        throw Error(ErrorKind::model, {.where = job_.where() + ": step " + std::to_string(position_.step + 1),
                                       .what = "a kernel disagrees with the reference",
                                       .got = run->check_failure(),
                                       .hint = "train with --device ref, and report this"});
}

StepReport Trainer::report_of(const Batch& batch) const {
  double loss_sum = 0;
  int64_t correct = 0;
  for (const auto& worker : workers_) {
    loss_sum += worker->loss_sum;
    correct += worker->correct;
  }
  StepReport report{
      .step = position_.step + 1, .epoch = batch.epoch, .examples = batch.size, .loss = loss_sum / static_cast<double>(batch.size)};
  if (model_->spec().classes > 0) report.accuracy = static_cast<double>(correct) / static_cast<double>(batch.size);
  report.learning_rate = optimizer_->learning_rate();
  if (optimizer_->needs_norms() && !overflow_) report.gradient_norm = optimizer_->gradient_norm();
  if (scale_) report.skipped = overflow_, report.loss_scale = static_cast<double>(scale_->scale), report.skipped_steps = scale_->skipped;
  return report;
}

StepOutcome Trainer::try_step(const Batch& batch, StepReport* report, const std::atomic<bool>* cancel) {
  cancel_ = cancel;
  return step_on(batch, report);
}

const Batch& Trainer::next_batch() {
  const PhaseScope scope(times_, TracePhase::load);
  return loader_->next();
}

StepReport Trainer::step(const std::atomic<bool>* cancel) {
  if (device_) need_no_step_ahead();  // before a batch is taken
  times_.round = position_.step + 1;
  const Batch& batch = next_batch();
  StepReport report;
  const StepOutcome outcome = try_step(batch, &report, cancel);
  if (outcome == StepOutcome::not_finite) throw non_finite(batch);
  if (outcome == StepOutcome::cancelled) loader_->seek(position_.epoch, position_.position);  // the batch comes again
  return report;
}

StepReport Trainer::step(const Batch& batch) {
  StepReport report;
  if (try_step(batch, &report, nullptr) == StepOutcome::not_finite) throw non_finite(batch);
  return report;
}

}  // namespace perigee
