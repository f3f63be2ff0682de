// A job with phases in a cluster: runs that follow each other, each in a folder of its own (phase-1, phase-2, ...) in the run's folder, where one
// log tells of all of them with steps, epochs and seconds that count on. A phase begins with the model that the one before left.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/launch/cluster_session.h"
#include "src/run/phases/phase_numbers.h"

namespace perigee {

class PhasedRun {
 public:
  // Trains one phase and tells its events; its event "end".
  using Train = std::function<Json(const Job& phase, ClusterSessionOptions options, const RunLog::Sink& sink)>;

  // Opens every phase's job, and the run folder. Error(data), Error(model), Error(usage), Error(resources).
  PhasedRun(const Job& job, ClusterSessionOptions options, Train train);
  void add_sink(RunLog::Sink sink) { sinks_.push_back(std::move(sink)); }
  const std::string& folder() const { return folder_->path(); }
  // Trains the phases that are not finished. The "end" event, of the last one or of one that was stopped.
  Json run();

 private:
  struct Sums {  // of the phases before
    double steps = 0, epochs = 0, seconds = 0;
    void add(const Json& end);
  };
  std::string folder_of(size_t phase) const { return folder() + "/phase-" + std::to_string(phase + 1); }
  bool take_over(size_t phase);
  Json train(size_t phase);
  Job job_of(size_t phase) const;
  void on_event(size_t phase, const Json& event);
  void tell_phase(size_t phase, const Json& start);
  double progress(size_t phase, double own) const;
  Json counted_on(const Json& event) const;
  void keep(size_t phase, const Json& end);
  Json finish(size_t phase, const Json& end);
  void tell(const Json& event);

  const Job job_;
  const size_t phases_;
  ClusterSessionOptions options_;
  Train train_;
  std::unique_ptr<RunFolder> folder_;
  std::vector<RunLog::Sink> sinks_;
  PhaseNumbers numbers_;
  Sums before_;
  bool started_ = false;
  int64_t examples_ = 1;  // of an epoch
};

}  // namespace perigee
