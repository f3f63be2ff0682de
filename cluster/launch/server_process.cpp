#include "cluster/launch/server_process.h"

#include "src/net/address.h"

namespace perigee {

ServerProcess::ServerProcess(UvLoop& loop, Rng& rng, const Secret& key, AgentClientOptions options, std::vector<std::string> arguments,
                             UvProcesses::OnLine on_line, AgentClientEvents& events)
    : name_(host_name() + "/server"),
      events_(events),
      agent_(loop, rng, key, name_, 1, std::move(arguments), std::move(on_line)),
      transport_(loop, UvTransportOptions{.key = key}) {
  options.agents = {agent_.address};
  options.standby.clear();
  options.start.workers = 1;
  client_ = std::make_unique<AgentClient>(std::move(options), loop, rng, transport_, *this);
  transport_.set_events(client_.get());
  client_->start();
}

}  // namespace perigee
