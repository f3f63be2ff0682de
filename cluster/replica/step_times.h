// A forecast's input about a job: how long its steps take on this machine, and how many bytes an exchange and a checkpoint have.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "cluster/launch/cluster_job.h"
#include "cluster/simulator/timed_replica.h"
#include "src/job/job.h"
#include "src/run/run_log.h"

namespace perigee {

struct MeasuredJob {
  RunFacts facts;
  sim::StepTimes times;
  int64_t steps = 0;  // that were measured; 0: none, or `stop` came first
  ExchangeLayout layout;
  std::vector<Bucket> buckets;
  std::vector<ParamWindow> windows;  // of the parameters; none: they are not known
  int64_t block_elements = 0;
  size_t image_bytes = 0;
  // To train it in a simulation, and to put its evaluations together.
  Json job;
  std::string tuning;
  std::map<std::string, ClusterJob::Part> parts;
};

// Opens the job, with its data, and builds its trainer; no step is made. Error(data), Error(model), Error(resources) as from Trainer.
MeasuredJob inspect_job(const Job& job, int threads);
// Then trains it on `threads` (0: the job's, or all cores) for a few seconds, in orders as a worker gets them: medians of those.
// Parameters change; nothing is written.
MeasuredJob measure_job(const Job& job, int threads, const std::atomic<bool>& stop);

}  // namespace perigee
