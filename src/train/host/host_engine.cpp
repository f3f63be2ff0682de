#include "src/train/host/host_engine.h"

#include <algorithm>
#include <cassert>

#include "src/tensor/bytes.h"
#include "src/train/device/device_room.h"

namespace perigee {

void HostEngine::build() {
  plans_ = std::make_unique<PlanSet>(*t_.model, PlanSet::Kind::training, t_.options.backend, &t_.tuning);
  plans_->set_carry(Carry::stated);
  if (!carried_ && !t_.model->carried().empty()) carried_ = std::make_unique<CarriedRows>(t_.model->carried(), t_.streams);
  plans_->set_recompute(RecomputeOptions::of(t_.job), arena_room());
  if (sparse_) sparse_->settle();
  sparse_ = SparseRows::of(t_, *plans_);
  if (sparse_) plans_->keep(sparse_->outputs());
  collective_ = plans_->slices().collective;
  sliceable_ = plans_->slices().sliceable;
  if (!cut_ && !carried_ && !collective_ && sliceable_) cut_ = CutRows::of(t_);
  slices_.clear();
  prepared_ = -1;
  for (int i = 0; i < t_.team.size(); ++i) {
    slices_.push_back(std::make_unique<ThreadSlice>(t_.model->params(), static_cast<size_t>(t_.team.size())));
    slices_.back()->memory = std::make_unique<PlanMemory>(*plans_, t_.model->params(), slices_.back()->gradient.data(), t_.options.check);
  }
}

// The memory that the job's limit leaves to the arena of each thread.
size_t HostEngine::arena_room() const {
  const size_t limit = memory_limit_of(t_.job), threads = static_cast<size_t>(t_.team.size());
  const size_t blocks = t_.model->params().block_bytes() * (1 + t_.slots.size() + threads);
  return limit == 0 ? SIZE_MAX : limit <= blocks ? 0 : (limit - blocks) / threads;
}

void HostEngine::retune(int64_t sub_batch) {
  if (sub_batch > 0) sub_batch_ = sub_batch;
  build();
}

int64_t HostEngine::sub_batch_for(int64_t slice) const { return collective_ || !sliceable_ ? slice : std::min(sub_batch_, slice); }

void HostEngine::prepare(int64_t examples) {
  if (examples == prepared_) return;
  // Slices that run in step with each other must not be empty.
  const int parts = !sliceable_ || (collective_ && examples < t_.team.size()) ? 1 : t_.team.size();
  in_step_ = collective_ && parts > 1;
  for (int rank = 0; rank < t_.team.size(); ++rank) {
    ThreadSlice& slice = *slices_[static_cast<size_t>(rank)];
    slice.begin = rank < parts ? examples * rank / parts : 0;
    slice.end = rank < parts ? examples * (rank + 1) / parts : 0;
    slice.full.clear(), slice.rest.clear();
    slice.last = nullptr;
    if (slice.begin == slice.end) continue;
    slice.full_size = sub_batch_for(slice.end - slice.begin);
    const int64_t left = (slice.end - slice.begin) % slice.full_size;
    // Twice: a plan that needs a larger arena unbinds the others.
    for (int round = 0; round < 2; ++round) {
      slice.full = bind_plans(slice, slice.full_size);
      if (left > 0) slice.rest = bind_plans(slice, left);
    }
  }
  if (cut_) cut_->divide(slices_);
  prepared_ = examples;
}

// Plans for `examples` examples of each of the steps that they may be cut to.
std::vector<BoundPlan> HostEngine::bind_plans(ThreadSlice& slice, int64_t examples) const {
  std::vector<BoundPlan> plans;
  if (!cut_) return {bind_plan(slice.memory->at(examples))};
  for (const int64_t steps : cut_->sizes()) plans.push_back(bind_plan(slice.memory->at({examples, cut_->key(steps)})));
  return plans;
}

BoundPlan HostEngine::bind_plan(PlanRun& run) const {
  BoundPlan bound{.run = &run, .loss = run.output_index("loss"), .output = run.output_index("output")};
  for (const NetworkInput& field : fields_of(t_.model->spec(), true)) bound.inputs.push_back(run.plan().input_index(field.name));
  if (t_.buckets.size() > 1) bound.marks = marks_of(run.plan());
  bound.seed = run.plan().input_index(kLossSeed);
  for (size_t i = 0; i < t_.factors.count(); ++i) bound.factors.push_back(run.plan().input_index(t_.factors.input(i)));
  return bound;
}

void HostEngine::bind_rows(const BoundPlan& plan, const Batch& batch, int64_t row) const {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const auto field = static_cast<size_t>(t_.read_fields[i]);
    const auto base = static_cast<const std::byte*>(batch.fields[field].view().data);
    if (plan.inputs[i] >= 0) plan.run->set_input(plan.inputs[i], base + static_cast<size_t>(row) * byte_size(t_.source->fields()[field]));
  }
  bind_numbers(plan);
  if (carried_) carried_->bind(*plan.run, lane_ + row);
}

void HostEngine::bind_numbers(const BoundPlan& plan) const {
  if (plan.seed >= 0) plan.run->set_input(plan.seed, seeds_.data());
  for (size_t i = 0; i < plan.factors.size(); ++i)
    if (plan.factors[i] >= 0) plan.run->set_input(plan.factors[i], t_.factors.values(i));
}

HostEngine::Bound HostEngine::bind_piece(size_t rank, const Batch& batch, int64_t row, int64_t n) {
  ThreadSlice& slice = *slices_[rank];
  std::vector<BoundPlan>& plans = n == slice.full_size ? slice.full : slice.rest;
  const Tensor& target = batch.fields[static_cast<size_t>(t_.target_fields[0])];
  const bool labels = t_.model->spec().classes > 0 && target.dtype() == Dtype::i64;
  if (!cut_) {
    bind_rows(plans[0], batch, row);
    return {&plans[0], batch.ids.data() + row, labels ? target.data<int64_t>() + row : nullptr};
  }
  const CutRows::Piece piece = cut_->gather(rank, batch, row, n);
  BoundPlan& plan = plans[piece.size];
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i] >= 0) plan.run->set_input(plan.inputs[i], piece.fields[i].data());
  bind_numbers(plan);
  return {&plan, piece.ids, labels ? reinterpret_cast<const int64_t*>(piece.fields[cut_->target()].data()) : nullptr};
}

// An epoch begins with streams that carry nothing. A batch of a cluster's worker has some of the lanes.
void HostEngine::begin_rows(const Batch& batch) {
  if (cut_) cut_->arrange(batch);
  if (sparse_) sparse_->arrange(batch);
  if (!carried_) return;
  lane_ = batch.position % t_.streams, lanes_ = batch.size;
  if (lane_ + batch.size > t_.streams)
    throw Error(ErrorKind::usage, {.where = t_.job.where() + ": data",
                                   .what = "a batch of streams has examples of two of their steps",
                                   .got = std::to_string(batch.size) + " from lane " + std::to_string(lane_),
                                   .expected = "at most all " + std::to_string(t_.streams) + " lanes, each once"});
  if (batch.position < t_.streams) carried_->clear(lane_, batch.size);
}

std::vector<size_t> HostEngine::marks_of(const Plan& plan) const {
  std::vector<size_t> marks(t_.buckets.size() - 1, 0);
  const auto& windows = t_.model->params().windows();
  for (size_t output = 0; output < plan.external_outputs().size(); ++output) {
    const int64_t offset = windows[static_cast<size_t>(t_.model->params().find(plan.external_outputs()[output].substr(5)))].offset;
    for (size_t b = 0; b < marks.size(); ++b)
      if (offset >= t_.buckets[b].begin && offset < t_.buckets[b].end)
        marks[b] = std::max(marks[b], plan.steps_until(static_cast<int>(output)));
  }
  for (size_t b = 1; b < marks.size(); ++b) marks[b] = std::max(marks[b], marks[b - 1]);
  return marks;
}

size_t HostEngine::bytes() const {
  size_t sum = t_.model->params().block_bytes();
  for (const Storage& slot : t_.slots) sum += slot.bytes();
  for (const auto& slice : slices_) sum += slice->gradient.bytes() + slice->sums.bytes() + slice->memory->bytes();
  return sum + (cut_ ? cut_->bytes() : 0) + (sparse_ ? sparse_->bytes() : 0);
}

DeviceMemory HostEngine::planned_memory(int64_t gpus) const { return planned_device_memory(t_, gpus); }

}  // namespace perigee
