// A worker process from start to end: connects, trains, leaves when it is asked to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/launch/secret.h"

namespace perigee {

struct WorkerMainOptions {
  std::string name;                       // empty: host/pid
  std::vector<std::string> coordinators;  // host:port: the first, then standbys
  std::function<std::string()> look_up;   // where the coordinator is by now; empty: `coordinators` say it. May throw
  Secret key;                             // of the job, from who started this process
  Secret secret;                          // of the cluster: the job's key is made from it once the job is known
  std::string advertise, interface_cidr;
  std::string data_root;                // data are opened only under it; empty: anywhere
  std::vector<std::string> partitions;  // NAME=SOURCE: what this worker holds of the data, and serves to the others
  std::string site;                     // which workers are near this one; empty: those of its host
  int threads = 0;
  int slot = 0;    // among the workers of this machine: which GPUs are its own
  int parent = 0;  // ends when this process does
  double give_up_ms = 120'000;
  bool started_by_us = false;  // Ctrl-C is the launcher's business
  bool server = false;         // of a served policy: holds the parameters and trains nothing
  std::string record;          // of the server: a file for what it makes its rounds of; of others: a folder; empty: none
  bool patient = false;        // SIGTERM came to the launcher as well: it may still want a checkpoint from us
};

// The exit code: 0 when the run has ended or the worker was asked to leave. Error of whatever ended it early.
int run_worker(const WorkerMainOptions& options);

// The secret that this process's starter put behind a descriptor; closes it. Error(authentication).
Secret read_inherited_key(int descriptor);
// The same for a standby, which also gets the cluster's secret.
void read_inherited_keys(int descriptor, Secret* key, Secret* secret);

}  // namespace perigee
