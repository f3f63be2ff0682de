// The local work that the coordinator has leased to a worker: what local-SGD rounds and the trainers of a parameter server begin with.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cluster/protocol/round_messages.h"
#include "cluster/replica/replica.h"

namespace perigee {

struct WorkerCore;

struct LeasedWork {
  std::deque<Range> queue;                             // not begun
  bool last = false;                                   // there will be no more
  int64_t steps = 0;                                   // local steps of an order, as the coordinator said last; 0: as the policy says
  int64_t examples_before = 0, examples_per_step = 0;  // of the last order

  bool add(const Lease& lease);  // false: no honest coordinator leases that
  void clear() { queue.clear(), last = false, steps = 0; }
  void put_back(const std::vector<Range>& ranges) { queue.insert(queue.begin(), ranges.begin(), ranges.end()); }
  // Takes the next local steps from the queue. `ahead`: the contribution before is still on its way, in `staged_row`.
  TrainOrder next(const WorkerCore& core, bool ahead, size_t staged_row);
};

}  // namespace perigee
