// A standby process from start to end: asks the coordinator what the run is, prepares for it, follows; and, should the coordinator be lost,
// becomes the run's launcher.
#pragma once

#include <functional>
#include <string>

#include "cluster/launch/secret.h"
#include "src/core/json.h"

namespace perigee {

struct StandbyMainOptions {
  std::string name;
  std::string coordinator;  // host:port
  Secret key;               // of the job
  Secret secret;            // of the cluster: to speak to the other agents
  std::string advertise, interface_cidr;
  std::string data_root;  // data are opened only under it; empty: anywhere
  int threads = 0;
  int parent = 0;                               // ends when this process does, unless it has taken over
  std::function<void(const Json& event)> show;  // every event of the run, once it is this one's
};

// The exit code: 0 when the run has ended, here or there. Error of whatever ended it early.
int run_standby(const StandbyMainOptions& options);

}  // namespace perigee
