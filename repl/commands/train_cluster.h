// The part of `perigee train` that knows of clusters: options, and the run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/engines/engine.h"
#include "cluster/launch/cluster_session.h"

namespace CLI {
class App;
}

namespace perigee {

struct ClusterOptions {
  int64_t workers = 0, min_workers = 0;
  std::vector<std::string> agents;
  std::string listen, secret, advertise, interface_cidr, standby, lease, engine = "auto";
  std::string restarts, stop_wait;
  bool record = false;
  int parent = 0;  // the process that this one ends with; 0: none
};

void declare_cluster_options(CLI::App& app, ClusterOptions* options);
bool in_cluster(const ClusterOptions& options);
// The options as they were given, each with a space in front; for "continue with".
std::string cluster_arguments(const ClusterOptions& options);

// The scheduler that started this process as one of several; nothing when the options already say how the run is spread.
std::optional<Engine> engine_of(const ClusterOptions& options);
// Trains in a scheduler's process that is not the first, for the first. Returns the exit code.
int train_for_engine(const Engine& engine, const ClusterOptions& options, int threads);
// The folder of a scheduler's job, so that it is found again when the job is started again; empty: as usual.
std::string engine_folder(const Engine& engine, const std::string& job_name);

using ShowEvent = std::function<void(const Json& event, const std::string& folder)>;
// The "end" event. Error of whatever ended the run early. `engine`: null, or whose first process this is.
Json train_in_cluster(const Job& job, const ClusterOptions& options, const Engine* engine, ClusterSessionOptions session,
                      const ShowEvent& show);

}  // namespace perigee
