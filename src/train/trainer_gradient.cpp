// The parts of a step for replicas that add up their gradients: a batch's gradient as a sum of one's own, bucket by bucket while
// backward goes on, and the update by a sum that came back.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {

struct Trainer::Gathering {
  const GradientTarget& target;
  size_t told = 0;
  std::atomic<bool> finite{true}, cancelled{false};
};

namespace {

// The share of one thread, on 64-byte borders.
Optimizer::Range share(Optimizer::Range range, int rank, int size) {
  const auto border = [&](int64_t at) { return at == size ? range.end : range.begin + (range.end - range.begin) * at / size / 16 * 16; };
  return {border(rank), border(rank + 1)};
}

// to = add[n-1] + (... + (add[0] + sum)) over one chunk; false when something in it is NaN or infinite.
bool add_chunk(const BlockMath& math, const std::byte* sum, const GradientTarget& target, Optimizer::Range chunk) {
  const int64_t n = chunk.end - chunk.begin;
  const size_t width = dtype_bytes(math.dtype), begin = static_cast<size_t>(chunk.begin) * width;
  std::byte* to = target.to + begin;
  if (target.add.empty()) std::memcpy(to, sum, static_cast<size_t>(n) * width);
  for (size_t i = 0; i < target.add.size(); ++i) math.add(target.add[i] + begin, i == 0 ? sum : to, n, to);
  return math.finite(to, n);
}

}  // namespace

std::vector<Optimizer::Range> cut_block(const Params& params, size_t bytes) {
  const auto wanted = static_cast<int64_t>(std::max<size_t>(bytes / params.width(), 1));
  std::vector<Optimizer::Range> buckets;
  int64_t end = params.block_elements();
  for (size_t i = params.windows().size(); i-- > 0;) {
    const int64_t begin = i == 0 ? 0 : params.windows()[i].offset;
    const bool rest_is_small = begin <= wanted / 2;
    if (i > 0 && (end - begin < wanted || rest_is_small)) continue;
    buckets.push_back({begin, end});
    end = begin;
  }
  if (buckets.empty()) buckets.push_back({0, end});
  return buckets;
}

void Trainer::cut_gradient(size_t bytes) {
  buckets_ = cut_block(model_->params(), bytes);
  prepared_ = -1;  // bound plans know their marks
  if (device_) device_->cut(buckets_);
}

std::vector<size_t> Trainer::marks_of(const Plan& plan) const {
  std::vector<size_t> marks(buckets_.size() - 1, 0);
  const auto& windows = model_->params().windows();
  for (size_t output = 0; output < plan.external_outputs().size(); ++output) {
    const int64_t offset = windows[static_cast<size_t>(model_->params().find(plan.external_outputs()[output].substr(5)))].offset;
    for (size_t b = 0; b < marks.size(); ++b)
      if (offset >= buckets_[b].begin && offset < buckets_[b].end)
        marks[b] = std::max(marks[b], plan.steps_until(static_cast<int>(output)));
  }
  for (size_t b = 1; b < marks.size(); ++b) marks[b] = std::max(marks[b], marks[b - 1]);
  return marks;
}

void Trainer::run_with_marks(Team& team, const BoundPlan& plan, const StepInfo& info, bool accumulate, Gathering& gathering) {
  Team* const inside = in_step_ ? &team : nullptr;
  size_t done = 0;
  for (const size_t mark : plan.marks) {
    plan.run->run_steps(done, mark, inside, info, accumulate);
    done = mark;
    gather_bucket(team, gathering);
  }
  plan.run->run_steps(done, plan.run->plan().steps().size(), inside, info, accumulate);
}

// Called by every thread once for each bucket, in their order.
void Trainer::gather_bucket(Team& team, Gathering& gathering) {
  Worker& worker = *workers_[static_cast<size_t>(team.rank())];
  const size_t bucket = worker.gathered++;
  const bool last = bucket + 1 == buckets_.size();
  team.barrier();  // every thread's part of it is complete
  bool finite = true;
  for_each_chunk(share(buckets_[bucket], team.rank(), team.size()), [&](Optimizer::Range chunk) {
    const std::byte* sum = sum_gradients(worker, 0, std::bit_ceil(workers_.size()), 0, chunk);
    finite = add_chunk(*math_, sum, gathering.target, chunk) && finite;
  });
  if (!finite) gathering.finite = false;
  team.barrier();
  if (team.rank() != 0) return;
  if (last) {  // by now every slice has its loss
    double loss = 0;
    for (const auto& each : workers_) loss += each->loss_sum;
    if (!std::isfinite(loss)) gathering.finite = false;
  }
  if (!gathering.finite || gathering.cancelled || !gathering.target.sink) return;
  gathering.target.sink->on_bucket(bucket);
  ++gathering.told;
}

GradientReport Trainer::sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) {
  assert(batch.size >= 0);
  if (buckets_.empty()) cut_gradient(model_->params().block_bytes());
  if (device_) return device_gradient(batch, target, cancel);
  if (scale_) return scaled_gradient(batch, target, cancel);
  cancel_ = cancel;
  const StepInfo base{.seed = seed_, .epoch = batch.epoch, .step = static_cast<uint64_t>(position_.step), .training = true};
  prepare(batch.size);
  Gathering gathering{.target = target};
  const PhaseScope scope(times_, TracePhase::compute, batch.size);
  team_.run([&](Team& team) {
    compute_slice(team, batch, base, &gathering);
    if (cancel && *cancel) gathering.cancelled = true;  // this thread may have left its slice
    while (workers_[static_cast<size_t>(team.rank())]->gathered < buckets_.size()) gather_bucket(team, gathering);
  });
  if (options_.check) check_kernels();
  GradientReport report{.examples = batch.size, .finite = gathering.finite, .cancelled = gathering.cancelled, .buckets = gathering.told};
  for (const auto& worker : workers_) {
    report.loss_sum += worker->loss_sum;
    report.correct += worker->correct;
  }
  return report;
}

void Trainer::update(const std::byte* gradient_sum, int64_t examples) {
  assert((gradient_sum || model_there()) && examples > 0);
  const PhaseScope scope(times_, TracePhase::update);
  begin_update(examples);
  if (device_) device_->update(gradient_sum);
  else team_.run([&](Team& team) { update_slice(team, gradient_sum); });
  position_.step += 1;
}

}  // namespace perigee
