#include "cluster/rounds/leased_work.h"

#include <algorithm>

#include "cluster/membership/worker_core.h"

namespace perigee {

bool LeasedWork::add(const Lease& lease) {
  if (queue.size() + lease.ranges.size() > kMaxRanges || lease.steps < 0) return false;
  queue.insert(queue.end(), lease.ranges.begin(), lease.ranges.end());
  last = lease.last;
  steps = lease.steps;
  return true;
}

TrainOrder LeasedWork::next(const WorkerCore& core, bool ahead, size_t staged_row) {
  const OpenRound& round = core.round;
  const Policy& policy = core.policy;
  const int64_t all_per_step = core.epoch_start->batch * static_cast<int64_t>(core.trainers());
  TrainOrder order{.round = core.held_round + 1 + (ahead ? 1 : 0),
                   .overlapped = ahead,
                   .row = ahead ? 1 - staged_row : 0,
                   .stop_after_ms = policy.round_ms(),
                   .examples_before = round.examples_done + (ahead ? round.staged->steps * all_per_step : 0),
                   .examples_per_step = all_per_step};
  const int64_t every = steps > 0 ? steps : policy.steps_of(order.round);
  const size_t count =
      policy.every_ms > 0 ? queue.size() : std::min<size_t>(queue.size(), static_cast<size_t>(std::max<int64_t>(1, every)));
  order.ranges.assign(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(count));
  queue.erase(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(count));
  order.next.assign(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(std::min(queue.size(), count)));
  examples_before = order.examples_before, examples_per_step = order.examples_per_step;
  return order;
}

}  // namespace perigee
