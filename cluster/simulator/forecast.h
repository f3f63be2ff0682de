// How long a job would take on machines not bought yet, and what it would learn: the real Coordinator and Workers, policy and
// exchanges on a virtual clock and network, with replicas that take the time of real ones and may really train. What is not in it: starting the processes, opening the data,
// evaluation, and examples that the coordinator sends (data.at = "coordinator").
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/membership/coordinator.h"
#include "cluster/simulator/timed_replica.h"
#include "src/core/json.h"
#include "src/optim/param_window.h"

namespace perigee::sim {

struct ForecastInput {
  // the cluster; each node has one worker, and the coordinator a host of its own
  int nodes = 1;
  double bytes_per_s = 125e6;                          // of frames, of each host, each way; infinity: no limit
  double latency_ms = 0.2;                             // one way
  double mtbf_s = 0;                                   // of each node, exponentially distributed; 0: none fails
  double repair_s = 60;                                // until a failed node's worker is back
  double speed_spread = 0;                             // of the logarithm of the nodes' speeds, normally distributed
  std::map<int, double> speeds;                        // of single nodes, against the others'
  double lose = 0;                                     // share of contributions of local steps that are lost, and done again
  std::vector<std::pair<double, double>> rates_later;  // seconds from the first order; bytes_per_s from then on
  uint64_t seed = 0;
  // the job
  Json averaging = "allreduce";
  int64_t examples = 0, planned = 0;  // of an epoch; of the run
  int64_t global_batch = 0;           // 0: times.batch of each node
  int64_t shards = 1;
  // its trainer
  StepTimes times;
  ExchangeLayout layout;
  std::vector<ParamWindow> windows;  // of its parameters, where they are known
  int64_t block_elements = 0;        // 0: as many as the layout leaves
  std::vector<Bucket> buckets;
  size_t image_bytes = 0;  // of a checkpoint
  // With numbers the replicas really train, and evaluate `parts` (name and examples) whenever an epoch is complete, and in the end.
  MakeNumbers numbers;
  std::map<std::string, int64_t> parts;
  Json job;  // that the numbers are made from; its averaging is the one above
  std::string folder, tuning;
  int threads = 1;
  uint64_t max_effort = 4'000'000;          // events, about: a longer run is simulated so far
  const std::atomic<bool>* stop = nullptr;  // ends the simulation early; what it returns is then of no use
};

// A committed round.
struct ForecastRound {
  double at_s = 0;  // from the first order
  int64_t examples_done = 0, steps = 0;
  int workers = 0;
  double loss = 0;       // of training, by the mean of its examples
  double computing = 0;  // share of the workers' time
  RoundView view;
};

struct ForecastEvaluation {
  double at_s = 0;  // from the first order, without evaluations
  int64_t examples_done = 0;
  std::string part;
  std::vector<std::string> states;  // for evaluation_report
};

struct Forecast {
  double share = 1;      // of the run that was simulated; what follows is of the whole run, in proportion
  double wall_s = 0;     // from the first order to the last commit
  double computing = 0;  // share of the nodes' time
  double examples_per_s = 0;
  int64_t examples_done = 0;  // in what was simulated
  int64_t rounds = 0;
  double sent_per_worker = 0;         // bytes, the mean
  std::string busiest_link;           // "node 3", "coordinator"
  double busiest_link_bytes = 0;      // in its busier direction
  double busiest_link_use = 0;        // share of what it could carry
  int64_t failures = 0;               // of nodes
  int64_t lost_workers = 0;           // as the coordinator saw it: more than failures where the network is too slow for its deadlines
  int64_t lost_examples = 0;          // trained, and in no result
  std::vector<ForecastRound> course;  // the first kMostRounds
  std::vector<ForecastEvaluation> evaluations;
  std::map<std::string, int64_t> told;  // how often each event was, but for workers that joined
  std::string ended;                    // training broke the run off: why
  uint64_t hash = 0;                    // of the last result
  uint64_t events = 0, trace_hash = 0;  // of the simulation
};

inline constexpr size_t kMostRounds = 65'536;

// One node that does not fail trains alone, without coordinator and network, unless it has numbers. Error(model) for a policy that is none; Error(cluster) when
// the run ends early, or has not got anywhere after `max_effort`.
Forecast forecast(const ForecastInput& input);

}  // namespace perigee::sim
