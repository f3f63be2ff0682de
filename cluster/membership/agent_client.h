// The launcher's side of the agents: asks each of them for workers, hears how they end, keeps the connection alive, and comes back when
// it breaks. A state machine; owned by the loop thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/membership/fault_log.h"
#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "src/core/error.h"

namespace perigee {

struct AgentClientOptions {
  std::vector<std::string> agents;  // host:port
  uint64_t job_id = 0;
  std::string standby;         // the agent that starts the standby, which may be one of them or not; empty: none
  Start start;                 // what each of them is asked
  double connect_ms = 5000;    // one attempt
  double give_up_ms = 30'000;  // an agent that was never reached for so long ends the run
  double beat_ms = 1000, silent_ms = 5000;
  double retry_ms = 200, retry_max_ms = 1000;
  double away_ms = 300'000;  // for so long an agent that is away may come back and start workers
};

class AgentClientEvents {
 public:
  virtual ~AgentClientEvents() = default;
  virtual void on_agent_event(const Json& event) = 0;  // "agent_lost", "agent_back"
  virtual void on_workers_started(const std::string& agent, uint32_t workers) = 0;
  virtual void on_process_end(const ProcessEnd& end) = 0;
  virtual void on_agents_failed(const Error& error) = 0;  // an agent refuses, or was never reached
  // No agent has a worker or will start one. Said again and again while it is so; workers of an agent that is away may still be there.
  virtual void on_none_left(const ProcessEnd& /*last*/) {}
};

class AgentClient final : public TransportEvents {
 public:
  AgentClient(AgentClientOptions options, Clock& clock, Rng& rng, Transport& transport, AgentClientEvents& events);
  void start();
  void stop(bool finished);                 // asks the agents to end this job's workers
  void abandon();                           // the workers are another coordinator's by now
  void trained(const std::string& worker);  // since it was started; its agent is told
  uint32_t workers() const;                 // that run or will be started again, as far as agents have told

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_writable(PeerId) override {}

 private:
  struct Node {
    std::string address, name;
    PeerId peer = 0;
    bool works = true, stands_by = false;
    bool connected = false, started = false, lost_told = false;
    bool answered = false;  // since it was connected last
    uint64_t heard_ns = 0, retry_ns = 0;
    double backoff_ms = 0;
    uint32_t workers = 0;
  };
  template <class M>
  void send(const Node& node, const M& message);
  Node* node_of(PeerId peer);
  static bool is_of(const Node& node, const std::string& process);
  void connect(Node& node);
  void lose(Node& node, const std::string& why, bool final);
  void check_left(uint64_t now);
  void fail(const Node& node, ErrorKind kind, const std::string& what, const std::string& hint = "");

  AgentClientOptions options_;
  Clock& clock_;
  Rng& rng_;
  Transport& transport_;
  AgentClientEvents& events_;
  std::vector<Node> nodes_;
  uint64_t begun_ns_ = 0, none_since_ns_ = 0;  // 0: some are left
  ProcessEnd last_end_;
  bool stopped_ = false;
};

}  // namespace perigee
