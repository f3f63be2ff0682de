// The daemon on a node: starts workers for jobs, watches them, restarts the ones that crash, tells the launcher what became of them.
// A state machine; processes are started by `Processes`. Owned by the loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "src/core/json.h"

namespace perigee {

struct WorkerProcess {
  std::string name;         // "host/1"
  std::string coordinator;  // host:port
  std::string key;          // hex
  uint32_t threads = 1;
  uint64_t job = 0;
  uint32_t slot = 0;      // of this agent: a worker that replaces another has its slot, and so its GPUs
  bool standby = false;   // not a worker: the coordinator's standby
  bool op_by_op = false;  // the one before it lost its GPU to an op that it could not name: this one is to find out
};

class Processes {
 public:
  virtual ~Processes() = default;
  // A number for it (the process id); 0: it could not be started, and `error` says why. The end is told by Agent::on_exited.
  virtual uint32_t start(const WorkerProcess& process, std::string* error) = 0;
  virtual void stop(uint32_t process, bool now) = 0;  // SIGTERM, or SIGKILL
};

struct AgentOptions {
  std::string name;
  uint32_t slots = 0;     // workers at a time, of all jobs; 0: one per core
  uint32_t restarts = 5;  // of one worker in `window_s` without training in between, then it is given up and told
  double window_s = 60, backoff_ms = 100, backoff_max_ms = 5000;
  double grace_ms = 5000;            // from SIGTERM to SIGKILL
  double launcher_silent_ms = 5000;  // a job's workers are left to find their coordinator; without workers the job is forgotten
};

// "5/60s", "20/10m", "0/1h". Error(usage) that names `where`.
void read_restarts(const std::string& text, const std::string& where, AgentOptions* options);

class Agent final : public TransportEvents {
 public:
  Agent(AgentOptions options, Clock& clock, Rng& rng, Transport& transport, Processes& processes);
  ~Agent() override;
  void on_exited(uint32_t process, int code, int signal, const std::string& tail);
  void stop();               // ends every worker: asks, and after `grace_ms` no longer
  bool stopping() const;     // also when a drain was asked for: the host may end once processes() is 0
  size_t processes() const;  // running now; the host may end once this is 0 after stop()
  Json status() const;

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_writable(PeerId peer) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
