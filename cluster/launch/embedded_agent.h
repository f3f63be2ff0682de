// The agent of processes that the launcher itself starts: a real one, reached over loopback like any other, so that there is one way to
// start workers. Owned by the loop thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cluster/membership/agent.h"
#include "cluster/uv/process.h"
#include "cluster/uv/uv_transport.h"
#include "src/net/loop.h"

namespace perigee {

struct EmbeddedAgent {
  EmbeddedAgent(UvLoop& loop, Rng& rng, const Secret& key, AgentOptions options, std::vector<std::string> arguments,
                UvProcesses::OnLine on_line)
      : transport(loop, {.key = key}),
        processes(
            loop.handle(), {.arguments = patient(std::move(arguments)), .die_with_parent = true},
            [this](uint32_t process, int code, int signal, const std::string& tail) { agent.on_exited(process, code, signal, tail); },
            std::move(on_line)),
        agent(std::move(options), loop, rng, transport, processes) {
    transport.set_events(&agent);
    address = transport.listen("127.0.0.1:0");
  }
  // Who sends SIGTERM to this process often sends it to its workers, too: this one may still want a checkpoint of them.
  static std::vector<std::string> patient(std::vector<std::string> arguments) {
    arguments.push_back("--patient");
    return arguments;
  }
  UvTransport transport;
  UvProcesses processes;
  Agent agent;
  std::string address;
};

}  // namespace perigee
