// A batch's gradient as a sum of the threads' own, bucket by bucket while backward goes on, and the update by a sum that came back.
#include <algorithm>
#include <bit>
#include <cstring>

#include "src/train/host/host_engine.h"

namespace perigee {

struct HostEngine::Gathering {
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

const std::byte* HostEngine::sum_gradients(const ThreadSlice& slice, size_t first, size_t span, size_t buffer,
                                           Optimizer::Range chunk) const {
  if (span == 1) return slices_[first]->gradient.data() + t_.bytes_of(chunk.begin);
  const size_t half = span / 2, deeper = buffer / 2 * 2 + 2;
  const std::byte* left = sum_gradients(slice, first, half, deeper, chunk);
  if (first + half >= slices_.size()) return left;
  const std::byte* right = sum_gradients(slice, first + half, half, deeper + 1, chunk);
  std::byte* sum = const_cast<std::byte*>(slice.sums.data()) + buffer * t_.bytes_of(kUpdateChunk);
  t_.math->add(left, right, chunk.end - chunk.begin, sum);
  return sum;
}

void HostEngine::merge_gradients(int rank, Optimizer::Range range) {
  if (slices_.size() == 1) return;
  std::byte* block = slices_[0]->gradient.data();
  const auto merge = [&](Optimizer::Range chunk) {
    const std::byte* sum = sum_gradients(*slices_[static_cast<size_t>(rank)], 0, std::bit_ceil(slices_.size()), 0, chunk);
    std::memcpy(block + t_.bytes_of(chunk.begin), sum, t_.bytes_of(chunk.end - chunk.begin));
  };
  if (sparse_) sparse_->for_each_chunk(range, merge);
  else for_each_chunk(range, merge);
}

void HostEngine::run_with_marks(Team& team, const BoundPlan& plan, const StepInfo& info, bool accumulate, Gathering& gathering) {
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
void HostEngine::gather_bucket(Team& team, Gathering& gathering) {
  ThreadSlice& slice = *slices_[static_cast<size_t>(team.rank())];
  const size_t bucket = slice.gathered++;
  const bool last = bucket + 1 == t_.buckets.size();
  team.barrier();  // every thread's part of it is complete
  bool finite = true;
  for_each_chunk(share(t_.buckets[bucket], team.rank(), team.size()), [&](Optimizer::Range chunk) {
    const std::byte* sum = sum_gradients(slice, 0, std::bit_ceil(slices_.size()), 0, chunk);
    finite = add_chunk(*t_.math, sum, gathering.target, chunk) && finite;
  });
  if (!finite) gathering.finite = false;
  team.barrier();
  if (team.rank() != 0) return;
  if (last && !losses_finite()) gathering.finite = false;  // by now every slice has its loss
  if (!gathering.finite || gathering.cancelled || !gathering.target.sink) return;
  gathering.target.sink->on_bucket(bucket);
  ++gathering.told;
}

void HostEngine::sum_figures(GradientReport* report) const {
  report->loss_sum = 0, report->correct = 0;
  for (const auto& slice : slices_) {
    report->loss_sum += slice->loss_sum;
    report->correct += slice->correct;
  }
}

GradientReport HostEngine::sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                                        const std::atomic<bool>* cancel) {
  cancel_ = cancel;
  prepare(batch.size);
  begin_rows(batch);
  const PhaseScope scope(t_.times, TracePhase::compute, batch.size);
  if (t_.scale) return scaled_gradient(batch, info, target, cancel);
  Gathering gathering{.target = target};
  t_.team.run([&](Team& team) {
    begin_slice(team);
    compute_slice(team, batch, info, &gathering);
    if (cancel && *cancel) gathering.cancelled = true;  // this thread may have left its slice
    while (slices_[static_cast<size_t>(team.rank())]->gathered < t_.buckets.size()) gather_bucket(team, gathering);
  });
  if (t_.options.check) check_kernels(info);
  GradientReport report{.examples = batch.size, .finite = gathering.finite, .cancelled = gathering.cancelled, .buckets = gathering.told};
  sum_figures(&report);
  return report;
}

double HostEngine::update(const std::byte* gradient_sum) {
  t_.team.run([&](Team& team) { update_slice(team, gradient_sum, true); });
  return t_.optimizer->needs_norms() ? t_.optimizer->gradient_norm() : -1;
}

}  // namespace perigee
