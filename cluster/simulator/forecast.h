// How long a job would take on machines that nobody has bought yet: the real Coordinator and Workers, policy and exchanges on a virtual
// clock and network, with replicas that take the time of real ones. What is not in it: starting the processes, opening the data,
// evaluation, and examples that the coordinator sends (data.at = "coordinator").
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cluster/simulator/timed_replica.h"
#include "src/io/json.h"

namespace perigee::sim {

struct ForecastInput {
  // the cluster; each node has one worker, and the coordinator a host of its own
  int nodes = 1;
  double bytes_per_s = 125e6;  // of frames, of each host, each way; infinity: no limit
  double latency_ms = 0.2;     // one way
  double mtbf_s = 0;           // of each node, exponentially distributed; 0: none fails
  double repair_s = 60;        // until a failed node's worker is back
  double speed_spread = 0;     // of the logarithm of the nodes' speeds, normally distributed
  uint64_t seed = 0;
  // the job
  Json averaging = "allreduce";
  int64_t examples = 0, planned = 0;  // of an epoch; of the run
  int64_t global_batch = 0;           // 0: times.batch of each node
  // its trainer
  StepTimes times;
  ExchangeLayout layout;
  std::vector<Bucket> buckets;
  size_t image_bytes = 0;                   // of a checkpoint
  uint64_t max_effort = 4'000'000;          // events, about: a longer run is simulated so far
  const std::atomic<bool>* stop = nullptr;  // ends the simulation early; what it returns is then of no use
};

struct Forecast {
  double share = 1;      // of the run that was simulated; what follows is of the whole run, in proportion
  double wall_s = 0;     // from the first order to the last commit
  double computing = 0;  // share of the nodes' time
  double examples_per_s = 0;
  int64_t rounds = 0;
  double sent_per_worker = 0;           // bytes, the mean
  std::string busiest_link;             // "node 3", "coordinator"
  double busiest_link_bytes = 0;        // in its busier direction
  double busiest_link_use = 0;          // share of what it could carry
  int64_t failures = 0;                 // of nodes
  int64_t lost_workers = 0;             // as the coordinator saw it: more than failures where the network is too slow for its deadlines
  int64_t lost_examples = 0;            // trained, and in no result
  uint64_t events = 0, trace_hash = 0;  // of the simulation
};

// One node that does not fail trains alone, without coordinator and network. Error(model) for a policy that is none; Error(cluster) when
// the run ends early, or has not got anywhere after `max_effort`.
Forecast forecast(const ForecastInput& input);

}  // namespace perigee::sim
