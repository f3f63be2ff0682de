#include "cluster/rounds/work_leases.h"

#include <algorithm>
#include <cmath>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr int64_t kRoundsAhead = 2;
constexpr int64_t kFirstBatches = 4;   // of a round that is measured in time, before the speed is known
constexpr int64_t kMaxBatches = 4096;  // of one worker's lease

}  // namespace

// Batches of one round.
int64_t WorkLeases::steps_of(const CoordinatedWorker& node) const {
  const Policy& policy = c_.options.policy;
  if (policy.every_ms <= 0)
    return c_.control.pace.active() ? c_.control.pace.steps(node.id) : std::max<int64_t>(1, policy.steps_per_round());
  if (node.rate <= 0) return kFirstBatches;
  const double batches = node.rate * policy.round_ms() * 1e-3 / static_cast<double>(c_.local_batch());
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(batches)), 1, kMaxBatches);
}

// A worker has its own shards, its rank's part of all of them; one that has done those, and nothing else, helps the others. A shard of streams
// goes on with one worker alone; where there are more workers, some have none.
Range WorkLeases::next_work(const CoordinatedWorker& node, int64_t count, bool idle) {
  const int64_t shards = c_.options.shards;
  const bool streams = c_.options.streams > 0;
  if (shards == 1 && !streams) return c_.books.pool().take(count);
  int64_t rank = 0;
  for (const WorkerId id : c_.members) {
    if (id == node.id) break;
    if (!c_.nodes.at(id).server) ++rank;
  }
  const auto workers = static_cast<int64_t>(c_.trainers());
  const int64_t first = rank * shards / workers, last = (rank + 1) * shards / workers;
  if (streams && first == last) return {};
  const Range own = c_.books.pool().take_of(first, std::max(first + 1, last), count);
  return own.count == 0 && idle && (!streams || planted(Bug::streams_helped)) ? c_.books.pool().take(count) : own;
}

// Ranges that other workers failed at and this one has not tried. Returns the examples.
int64_t WorkLeases::retry_failures(CoordinatedWorker& node, Lease* lease) {
  int64_t examples = 0;
  for (CoordinatorCore::Failure& f : c_.failures) {
    if (!f.waiting || std::find(f.by.begin(), f.by.end(), node.id) != f.by.end()) continue;
    f.waiting = false;
    for (Range rest = f.range; rest.count > 0;) {  // what failed together is still done in batches
      const Range piece = {rest.epoch, rest.begin, std::min(c_.local_batch(), rest.count)};
      lease->ranges.push_back(piece);
      rest.begin += piece.count, rest.count -= piece.count;
    }
    examples += f.range.count;
  }
  return examples;
}

void WorkLeases::top_up(CoordinatedWorker& node) {
  if (!c_.start_allowed() || !node.member || node.server || c_.border || c_.finished) return;
  const int64_t batch = c_.local_batch(), batches = steps_of(node);
  const int64_t ahead = kRoundsAhead + (c_.options.policy.overlap ? 1 : 0);
  const int64_t wanted = std::min(ahead * batches, kMaxBatches) * batch;
  const bool idle = node.leased.empty();
  Lease lease;
  int64_t has = examples_of(node.leased) + retry_failures(node, &lease);
  while (has < wanted) {
    const Range range = next_work(node, batch, idle);
    if (range.count == 0) {
      lease.last = true;
      break;
    }
    lease.ranges.push_back(range);
    has += range.count;
  }
  if (c_.control.pace.active()) lease.steps = batches;
  if (lease.ranges.empty() && lease.last == node.lease_last && lease.steps == node.lease_steps) return;
  node.lease_last = lease.last;
  node.lease_steps = lease.steps;
  if (!lease.ranges.empty()) node.leased_ns = c_.clock.now_ns();
  node.leased.insert(node.leased.end(), lease.ranges.begin(), lease.ranges.end());
  // It had said that it has no work; now it will say again when it has done this.
  if (!lease.ranges.empty() && !c_.rounds->begun() && node.ready && node.ready->ranges.empty()) node.ready.reset();
  if (!lease.ranges.empty() && node.early && node.early->finite && node.early->ranges.empty()) node.early.reset();
  c_.tell(node, lease, c_.open);
}

void WorkLeases::top_up_all() {
  for (const WorkerId id : c_.members) top_up(c_.nodes.at(id));
}

}  // namespace perigee
