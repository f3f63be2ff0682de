// Word vectors that are trained as a job: in a run folder with checkpoints, and by several workers.
#pragma once

#include <memory>
#include <string>

#include "repl/commands/train_cluster.h"
#include "src/vectors/trained_vectors.h"

namespace perigee {

struct VectorRun {
  ClusterOptions cluster;
  std::string run, resume;  // the run folder; the run that is gone on with
  std::string averaging;    // JSON of the job's; empty: as vector_job() has it
  bool asked() const { return !run.empty() || !resume.empty() || in_cluster(cluster); }
};

// Trains to the end or until stopped. What is there then; `stopped` tells which. Null: it was stopped before anything was kept.
std::unique_ptr<TrainedVectors> train_vectors_as_job(const Json& given, const VectorOptions& options, const VectorRun& run, bool* stopped);
// The job as a file: .json.
void write_vector_job(const std::string& path, const Json& given, const VectorOptions& options, int64_t workers);

}  // namespace perigee
