// A whole run in a cluster, as `perigee train` starts it: coordinator and session in this process, workers on this machine by an
// embedded agent, on others by their agents, or by themselves when they join.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/cluster_session.h"
#include "cluster/launch/secret.h"
#include "cluster/uv/uv_transport.h"
#include "src/net/loop.h"

namespace perigee {

struct LaunchOptions {
  ClusterSessionOptions session;
  int workers = 0;                        // processes on this machine; with `agents`, on each of theirs (0: one)
  std::vector<std::string> agents;        // host:port
  std::string listen;                     // where workers may join by themselves; empty: nowhere but from this machine
  std::string standby;                    // the agent whose standby takes over should this process be lost; empty: none
  std::string lease;                      // etcd://hosts/name: who holds this key coordinates; empty: the vote of the workers
  std::string advertise, interface_cidr;  // what others are told of our address
  Secret secret;                          // of the cluster; empty: everything stays on this machine
  std::string restarts;                   // of workers on this machine and of the server: N/PERIOD; empty: the default
  int min_workers = 1;
  int expected_workers = 0;                   // that come by themselves, besides those started here, and are waited for at the beginning
  std::vector<std::string> worker_arguments;  // more of them for workers on this machine
  bool record = false;                        // what is needed to train it again, to RUN/record.jsonl, or to the folder RUN/record
};

// A standby's state for the launcher that it becomes: it listens already, and workers are at the door.
struct Handover {
  UvLoop& loop;
  std::unique_ptr<UvTransport> transport;
  std::string listening, address;
  Secret key;
  uint64_t job_id = 0;
  ClusterJob job;
  Inheritance inheritance;
  std::string from, cause;  // where the coordinator was; what became of it
};

class Launcher {
 public:
  // Opens the job and the run folder, listens. Error(data), Error(model), Error(usage), Error(resources).
  Launcher(const Job& job, LaunchOptions options, const std::atomic<bool>& stop);
  // Coordinates as the standby: once enough workers have come, also their agents are this launcher's.
  Launcher(Handover handover, LaunchOptions options, const std::atomic<bool>& stop);
  ~Launcher();

  ClusterSession& session();
  const std::string& address() const;  // where workers find the coordinator
  const Secret& key() const;           // of this job
  // Calls `work` on the thread of run(), between two of its events. Any thread, also before run(). False: too much waits there already.
  bool post(std::function<void(Coordinator&)> work);
  // Trains to the end. The "end" event; Error of whatever ended the run early.
  Json run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
