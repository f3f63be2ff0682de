// The server of a served policy: one more worker process beside the launcher, wherever the others are, started again when it dies.
// Owned by the loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/embedded_agent.h"
#include "cluster/membership/agent_client.h"

namespace perigee {

class ServerProcess final : public AgentClientEvents {
 public:
  // `options`: as for the agents of workers. `events` hears of its end.
  ServerProcess(UvLoop& loop, Rng& rng, const Secret& key, AgentClientOptions options, AgentOptions agent,
                std::vector<std::string> arguments, UvProcesses::OnLine on_line, AgentClientEvents& events);
  bool owns(const std::string& worker) const { return worker.starts_with(name_ + "/"); }
  size_t processes() const { return agent_.agent.processes(); }
  void stop() { client_->stop(true); }
  void trained(const std::string& worker) { client_->trained(worker); }

  void on_agent_event(const Json& event) override { events_.on_agent_event(event); }
  void on_workers_started(const std::string&, uint32_t) override {}
  void on_process_end(const ProcessEnd& end) override { events_.on_process_end(end); }
  void on_agents_failed(const Error& error) override { events_.on_agents_failed(error); }

 private:
  const std::string name_;
  AgentClientEvents& events_;
  EmbeddedAgent agent_;
  UvTransport transport_;
  std::unique_ptr<AgentClient> client_;
};

}  // namespace perigee
