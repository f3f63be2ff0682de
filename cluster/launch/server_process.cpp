#include "cluster/launch/server_process.h"

#include "src/net/address.h"

namespace perigee {

namespace {

AgentOptions named(AgentOptions options, const std::string& name) {
  options.name = name;
  options.slots = 1;
  return options;
}

}  // namespace

ServerProcess::ServerProcess(UvLoop& loop, Rng& rng, const Secret& key, AgentClientOptions options, AgentOptions agent,
                             std::vector<std::string> arguments, UvProcesses::OnLine on_line, AgentClientEvents& events)
    : name_(host_name() + "/server"),
      events_(events),
      agent_(loop, rng, key, named(std::move(agent), name_), std::move(arguments), std::move(on_line)),
      transport_(loop, UvTransportOptions{.key = key}) {
  options.agents = {agent_.address};
  options.standby.clear();
  options.start.workers = 1;
  client_ = std::make_unique<AgentClient>(std::move(options), loop, rng, transport_, *this);
  transport_.set_events(client_.get());
  client_->start();
}

}  // namespace perigee
