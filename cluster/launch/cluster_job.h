// The job of a cluster's run as its launcher knows it: checked, measured, and with the facts that coordinator and run folder need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/data/data_print.h"
#include "cluster/data/served_data.h"
#include "cluster/policy/policy.h"
#include "src/model/evaluation.h"
#include "src/run/run_log.h"

namespace perigee {

// The job's averaging; an error names the line of the script.
Policy policy_of_job(const Job& job);

// How many shards the job's training data are cut into. Error(model): not with this policy.
int64_t data_shards(const Job& job, const Policy& policy, int64_t examples);

// The launcher's checks of the job before any worker is started, with the same errors as a run on one machine.
struct ClusterJob {
  explicit ClusterJob(const Job& job, const TrainerOptions& options);
  struct Part {
    int64_t examples = 0;
    std::string data;
    EvaluationTask task;
    bool in_order = false;  // one worker evaluates it from its beginning to its end
  };
  Job job;
  Policy policy;
  RunFacts facts;
  std::string tuning;
  int64_t global_batch = 0, shards = 1;
  int64_t streams = 0;                // that the shards deal out to workers; 0: they deal out examples that stand alone
  std::map<std::string, Part> parts;  // of the data, besides "train"
  EvaluationTask train_task;
  bool weighted = false;  // Trainer::weighted()
  Json details;           // run_details()
  void check_repeats(const Trainer& probe) const;
  void check_steps(const Trainer& probe, bool on_gpus) const;
  std::optional<EvaluationTask> task_of(const std::string& part) const;
  // The part of the data that the run's page shows.
  std::string shown_part() const { return parts.contains("test") ? "test" : "validation"; }
  std::vector<DataPrint> data_prints;
  std::unique_ptr<ServedData> served;  // data.at = "coordinator"; else null
};

}  // namespace perigee
