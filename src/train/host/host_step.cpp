// One step: slices through their plans, gradients together, the update.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/train/host/host_engine.h"

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

void HostEngine::compute_slice(Team& team, const Batch& batch, const StepInfo& base, Gathering* gathering) {
  ThreadSlice& slice = *slices_[static_cast<size_t>(team.rank())];
  slice.loss_sum = 0;
  slice.correct = 0;
  slice.gathered = 0;
  if (sparse_) sparse_->clear(team.rank(), slice.gradient.data());
  if (slice.begin == slice.end) {  // nothing to add, but its block is part of the sum
    std::memset(slice.gradient.data(), 0, slice.gradient.bytes());
    return;
  }
  ++slice.pass;
  for (int64_t row = slice.begin; row < slice.end;) {
    if (cancel_ && !collective_ && *cancel_) return;  // the step is dropped before its update
    const int64_t n = std::min(slice.full_size, slice.end - row);
    const auto [bound, ids, labels] = bind_piece(static_cast<size_t>(team.rank()), batch, row, n);
    BoundPlan& plan = *bound;
    if (plan.packed != slice.pass) plan.run->pack(), plan.packed = slice.pass;
    slice.last = plan.run;
    StepInfo info = base;
    info.example_ids = ids;
    if (gathering && row + n == slice.end) run_with_marks(team, plan, info, row > slice.begin, *gathering);
    else plan.run->run(in_step_ ? &team : nullptr, info, row > slice.begin);
    if (carried_) carried_->take(*plan.run, lane_ + row);
    slice.loss_sum = t_.math->sum(plan.run->output(plan.loss).data, n, slice.loss_sum);
    if (labels) slice.correct += count_correct(*t_.math, plan.run->output(plan.output), labels);
    row += n;
  }
}

void HostEngine::queue(const StepTask& task) {
  batch_ = &task.batch;
  info_ = task.info;
  cancel_ = task.cancel;
  std::optional<StepOutcome> outcome;
  while (!outcome) outcome = attempt(task);
  outcome_ = *outcome;
}

StepOutcome HostEngine::take(StepFigures* figures) {
  GradientReport sums;
  sum_figures(&sums);
  *figures = {.loss_sum = sums.loss_sum, .correct = sums.correct, .overflowed = overflow_};
  if (t_.optimizer->needs_norms() && !overflow_) figures->gradient_norm = t_.optimizer->gradient_norm();
  return outcome_;
}

std::optional<StepOutcome> HostEngine::attempt(const StepTask& task) {
  const Batch& batch = task.batch;
  set_seed(batch.size);
  t_.optimizer->begin_step(task.progress, 1.0 / task.weight * (1 / static_cast<double>(seed_value_)));
  prepare(batch.size);
  begin_rows(batch);
  const bool merges_first = task.exchange || t_.optimizer->needs_norms() || t_.scale;  // else each chunk is summed just before its update
  bool finite = true, cancelled = false;
  const uint64_t begin_ns = monotonic_ns();
  uint64_t computed_ns = begin_ns, exchanged_ns = 0;
  t_.team.run([&](Team& team) {
    begin_slice(team);
    compute_slice(team, batch, task.info);
    team.barrier();
    if (team.rank() == 0) computed_ns = monotonic_ns(), cancelled = cancel_ && *cancel_, finite = losses_finite();
    team.barrier();
    if (cancelled || !finite) return;
    if (merges_first) merge_gradients(team.rank(), t_.optimizer->range(team.rank(), team.size()));
    if (t_.scale && overflows(team, task.exchange)) return;
    if (task.exchange) {
      team.barrier();
      if (team.rank() == 0) exchange(task), exchanged_ns = monotonic_ns();
      team.barrier();
      if (exchange_error_) return;
    }
    update_slice(team, merges_first ? slices_[0]->gradient.data() : nullptr, task.exchange != nullptr);
    if (team.rank() == 0) commit_states(), commit_carried();
  });
  t_.times.add(TracePhase::compute, begin_ns, computed_ns, batch.size);
  if (exchanged_ns != 0) t_.times.add(TracePhase::exchange, computed_ns, exchanged_ns);
  t_.times.add(TracePhase::update, std::max(computed_ns, exchanged_ns), monotonic_ns());
  if (exchange_error_) std::rethrow_exception(std::exchange(exchange_error_, nullptr));
  if (t_.options.check) check_kernels(task.info);
  if (cancelled) return StepOutcome::cancelled;
  if (!finite || move_scale() == StepOutcome::not_finite) return StepOutcome::not_finite;
  if (overflow_ && task.exchange) return std::nullopt;
  if (overflow_) {
    ++t_.scale->skipped;
    commit_carried();  // what was read stays read
  }
  return StepOutcome::done;
}

bool HostEngine::losses_finite() const {
  double sum = 0;
  for (const auto& slice : slices_) sum += slice->loss_sum;
  return std::isfinite(sum);
}

// Between two barriers, on one thread: nothing may leave it but by `exchange_error_`.
void HostEngine::exchange(const StepTask& task) {
  if (sparse_) sparse_->written_elsewhere();
  try {
    (*task.exchange)({slices_[0]->gradient.data(), slices_[0]->gradient.bytes()}, task.batch);
  } catch (const std::exception&) {
    exchange_error_ = std::current_exception();
  }
}

void HostEngine::commit_states() {
  if (PlanRun* last = slices_[0]->last) last->commit_states();
}

// Rows that were passed over come up to date before any thread reads them.
void HostEngine::begin_slice(Team& team) {
  if (!sparse_) return;
  sparse_->catch_up(team.rank(), team.size());
  team.barrier();
}

// A range of the block at once, or with rows of which only those are updated that have to be.
void HostEngine::update_range(const ThreadSlice& slice, Optimizer::Range range, const std::byte* gradient) {
  std::byte* parameters = t_.model->params().block();
  const auto summed = [&](Optimizer::Range chunk) {
    return gradient ? gradient + t_.bytes_of(chunk.begin) : sum_gradients(slice, 0, std::bit_ceil(slices_.size()), 0, chunk);
  };
  const auto dense = [&](Optimizer::Range part) {
    if (gradient) return t_.optimizer->update(part, parameters, gradient, t_.slot_pointers.data());
    for_each_chunk(part,
                   [&](Optimizer::Range chunk) { t_.optimizer->update_chunk(chunk, parameters, summed(chunk), t_.slot_pointers.data()); });
  };
  if (!sparse_) return dense(range);
  const std::byte* read = nullptr;  // the gradient of the row at hand
  Optimizer::Range row;
  const auto read_row = [&](Optimizer::Range of) {
    row = of;
    return read = summed(of);
  };
  sparse_->for_each_update(range, dense, read_row, [&](Optimizer::Range of) {
    if (row.begin != of.begin || !read) read_row(of);
    t_.optimizer->update_chunk(of, parameters, read, t_.slot_pointers.data());
  });
}

// `gradient` null: each chunk is summed over the threads just before its update.
void HostEngine::update_slice(Team& team, const std::byte* gradient, bool foreign) {
  const Optimizer::Range range = t_.optimizer->range(team.rank(), team.size());
  if (sparse_) {
    team.barrier();  // what rows have in other threads' ranges is there
    if (team.rank() == 0) sparse_->begin_update(foreign);
    team.barrier();
  }
  if (t_.optimizer->needs_norms()) {
    t_.optimizer->measure(range, gradient, sparse_ ? sparse_->quiet() : std::span<const uint8_t>());
    team.barrier();
    if (team.rank() == 0) t_.optimizer->finish_norms();
    team.barrier();
  }
  update_range(*slices_[static_cast<size_t>(team.rank())], range, gradient);
  if (sparse_) {
    team.barrier();
    if (team.rank() == 0) sparse_->end_update();
    team.barrier();
  }
  if (t_.optimizer->has_constraints()) {
    team.barrier();
    t_.optimizer->constrain(team.rank(), team.size(), t_.model->params().block());
  }
}

void HostEngine::check_kernels(const StepInfo& info) const {
  for (const auto& slice : slices_)
    for (const auto* plans : {&slice->full, &slice->rest})
      for (const BoundPlan& plan : *plans)
        if (!plan.run->check_failure().empty())
          throw Error(ErrorKind::model, {.where = t_.step_name(info.step),
                                         .what = "a kernel disagrees with the reference",
                                         .got = plan.run->check_failure(),
                                         .hint = "train with device = \"ref\", and report this"});
}

std::string HostEngine::find_non_finite() {
  std::string found;
  for (size_t rank = 0; rank < slices_.size(); ++rank) {
    const ThreadSlice& slice = *slices_[rank];
    for (int64_t row = slice.begin; row < slice.end && found.empty(); row += slice.full_size) {
      const Bound bound = bind_piece(rank, *batch_, row, std::min(slice.full_size, slice.end - row));
      StepInfo info = info_;
      info.example_ids = bound.ids;
      found = bound.plan->run->find_non_finite(info);
    }
  }
  return found;
}

}  // namespace perigee
