// Work that the coordinator leases to workers for their local steps, from the pool of its books.
#pragma once

#include <cstdint>

#include "cluster/protocol/round_messages.h"

namespace perigee {

struct CoordinatorCore;
struct CoordinatedWorker;

class WorkLeases {
 public:
  explicit WorkLeases(CoordinatorCore& core) : c_(core) {}
  void top_up(CoordinatedWorker& node);  // so that it has enough for two rounds
  void top_up_all();

 private:
  int64_t steps_of(const CoordinatedWorker& node) const;
  Range next_work(const CoordinatedWorker& node, int64_t count, bool idle);
  int64_t retry_failures(CoordinatedWorker& node, Lease* lease);

  CoordinatorCore& c_;
};

}  // namespace perigee
