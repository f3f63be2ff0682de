#include "src/train/objectives.h"

#include <cassert>
#include <cstring>
#include <utility>

namespace perigee {
namespace {

void refuse_turns(const Job& job, std::string what, std::string got, std::string expected) {
  throw job.placed(
      Error(ErrorKind::model,
            {.where = job.where() + ": objectives", .what = std::move(what), .got = std::move(got), .expected = std::move(expected)}));
}

}  // namespace

ObjectiveTurns::ObjectiveTurns(const Job& job, TrainingSetup& first) : first_(first) {
  if (first.options.backend == Backend::cuda) refuse_turns(job, "take turns on a CPU", "device \"cuda\"", "device = \"cpu\"");
  if (first.scale) refuse_turns(job, "have no loss scale", "precision \"fp16\"", "precision = \"float32\"");
  for (size_t i = 1; i < objective_count(job); ++i) {
    Turn turn{.setup = std::make_unique<TrainingSetup>(job, i, first), .engine = nullptr};
    turn.engine = make_engine(*turn.setup);
    turns_.push_back(std::move(turn));
  }
  reports_.push_back({.name = first.objective->name});
  for (const Turn& turn : turns_) reports_.push_back({.name = turn.setup->objective->name});
}

void ObjectiveTurns::build() {
  for (Turn& turn : turns_) {
    turn.setup->buckets = {{0, turn.setup->model->params().block_elements()}};
    turn.engine->build();
  }
  for (const Turn& turn : turns_)
    if (turn.engine->most_at_once() != turn.setup->batch)
      refuse_turns(first_.job, "take whole batches, and something in the network or a loss looks at a batch as a whole",
                   "accumulate = " + std::to_string(turn.setup->batch / turn.setup->at_once), "accumulate = 1, with a larger data.batch");
}

void ObjectiveTurns::initialize() {
  for (Turn& turn : turns_) {
    for (const Storage& slot : turn.setup->slots) std::memset(slot.data(), 0, slot.bytes());
    turn.setup->optimizer->initialize(turn.setup->slot_pointers.data());
  }
}

void ObjectiveTurns::measure(Loader& loader, int64_t sub_batch) {
  for (Turn& turn : turns_) {
    turn.setup->tuning.merge(first_.tuning.to_json());
    turn.engine->measure(loader);
    first_.tuning.merge(turn.setup->tuning.to_json());
    turn.engine->retune(sub_batch);
  }
}

void ObjectiveTurns::retune(int64_t sub_batch) {
  for (Turn& turn : turns_) {
    turn.setup->tuning.merge(first_.tuning.to_json());
    turn.engine->retune(sub_batch);
  }
}

void ObjectiveTurns::gather_tuning() {
  for (Turn& turn : turns_) {
    const uint64_t changes = turn.setup->tuning.changes();
    if (std::exchange(turn.gathered, changes) != changes) first_.tuning.adopt(turn.setup->tuning.of_run());
  }
}

size_t ObjectiveTurns::next_turn(size_t objective, int64_t step) const {
  while (objective < count() && step % setup_of(objective).objective->every != 0) ++objective;
  return objective;
}

StepEngine& ObjectiveTurns::engine(size_t objective) const {
  assert(objective > 0);
  return *turns_[objective - 1].engine;
}

Optimizer& ObjectiveTurns::optimizer(size_t objective) const { return *setup_of(objective).optimizer; }

void ObjectiveTurns::set_factors(size_t objective, const StepProgress& now, int64_t examples) {
  setup_of(objective).factors.set(progress(objective, now), examples);
}

// A rule counts its own updates.
StepProgress ObjectiveTurns::progress(size_t objective, StepProgress now) const {
  now.step /= setup_of(objective).objective->every;
  return now;
}

StepOutcome ObjectiveTurns::take(size_t i, TrainingSetup& setup, StepEngine& engine, const StepTask& task, StepFigures* figures) {
  if (next_turn(i, task.progress.step) != i) return StepOutcome::done;
  StepTask own = task;
  own.progress = progress(i, task.progress);
  setup.factors.set(own.progress, task.batch.size);
  if (i > 0) own.cancel = nullptr;  // the step has begun
  engine.queue(own);
  const StepOutcome outcome = engine.take(figures);
  if (outcome != StepOutcome::done) return outcome;
  reports_[i].loss = figures->loss_sum / task.weight;
  reports_[i].learning_rate = setup.optimizer->learning_rate();
  return outcome;
}

StepOutcome ObjectiveTurns::step(const StepTask& task, StepEngine& engine, StepFigures* figures) {
  StepOutcome outcome = take(0, first_, engine, task, &last_);
  *figures = last_;
  for (size_t i = 0; i < turns_.size() && outcome == StepOutcome::done; ++i) {
    StepFigures own;
    outcome = take(i + 1, *turns_[i].setup, *turns_[i].engine, task, &own);
  }
  return outcome;
}

void ObjectiveTurns::change_optimizer(const Json& job) {
  const Job changed(job, first_.job.where(), first_.job.folder());
  for (size_t i = 0; i < turns_.size(); ++i)
    turns_[i].setup->optimizer->change(optimizer_options(objective_job(changed, i + 1).json()), first_.job.where());
}

void ObjectiveTurns::set_rate_factor(double factor) {
  for (Turn& turn : turns_) turn.setup->optimizer->set_rate_factor(factor);
}

size_t ObjectiveTurns::slots() const {
  size_t sum = 0;
  for (const Turn& turn : turns_) sum += turn.setup->slots.size();
  return sum;
}

std::pair<Storage*, std::string> ObjectiveTurns::place_of(size_t slot) const {
  for (size_t i = 0; i < turns_.size(); ++i) {
    TrainingSetup& setup = *turns_[i].setup;
    if (slot < setup.slots.size()) return {&setup.slots[slot], "objective" + std::to_string(i + 2) + "/" + setup.optimizer->slots()[slot]};
    slot -= setup.slots.size();
  }
  assert(false);
  return {};
}

std::string ObjectiveTurns::slot_name(size_t i) const { return place_of(i).second; }

size_t ObjectiveTurns::bytes() const {
  size_t sum = 0;
  for (const Turn& turn : turns_) sum += turn.engine->bytes() - turn.setup->model->params().block_bytes();
  return sum;
}

}  // namespace perigee
