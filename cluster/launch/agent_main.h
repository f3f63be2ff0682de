// `perigee agent` from start to end: the state machine on real sockets and processes.
#pragma once

#include <functional>
#include <string>

#include "cluster/launch/secret.h"
#include "src/core/json.h"

namespace perigee {

struct AgentMainOptions {
  std::string listen = "127.0.0.1:0";
  std::string name;       // empty: the host's
  std::string data_root;  // workers open data only under it
  std::string site;       // of its workers; empty: the host
  std::string advertise, interface_cidr;
  Secret secret;
  int slots = 0;         // 0: one per core
  std::string restarts;  // of a worker: N/PERIOD; empty: the default
  std::function<void(const Json& event)> log;
};

// Until SIGTERM or SIGINT, then the workers are ended. The exit code. Error(usage), Error(resources) when it cannot listen.
int run_agent(const AgentMainOptions& options);

// Asks the agent at this address to end: its workers leave at the end of their round. Returns when it is gone. Errors as below.
void drain_agent(const std::string& address, const Secret& secret, double seconds = 30);

// Asks an agent or a coordinator how it is. Error(cluster) when there is no answer, Error(authentication).
Json ask_status(const std::string& address, const Secret& secret, double seconds = 5);

}  // namespace perigee
