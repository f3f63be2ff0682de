// `perigee agent`: stays up on a machine and runs workers for the jobs of any holder of the secret.
#include <CLI/App.hpp>
#include <cstdio>
#include <string>

#include "cluster/launch/agent_main.h"
#include "repl/commands/command.h"
#include "src/core/error.h"
#include "src/net/address.h"

namespace perigee {
namespace {

struct AgentCommandOptions {
  std::string secret, log = "plain", drain;
  AgentMainOptions agent;
} agent_command_options;

void declare_agent(CLI::App& app) {
  app.add_option("--listen", agent_command_options.agent.listen,
                 "HOST:PORT; without a secret only on this machine; the default is a free port there");
  app.add_option("--secret", agent_command_options.secret, "the file with the cluster's secret; `perigee secret new` makes one");
  app.add_option("--data-root", agent_command_options.agent.data_root,
                 "workers open data only under this folder; relative paths start there");
  app.add_option("--slots", agent_command_options.agent.slots, "workers at a time, of all jobs; the default is one per core")
      ->check(CLI::PositiveNumber);
  app.add_option("--restarts", agent_command_options.agent.restarts,
                 "of a worker that does not come to train, N/PERIOD; the default is 5/60s");
  app.add_option("--drain", agent_command_options.drain, "end the agent at HOST:PORT: its workers leave their runs at the end of a round");
  app.add_option("--name", agent_command_options.agent.name, "what it is called in logs; the default is the host's name");
  app.add_option("--site", agent_command_options.agent.site,
                 "a name that near machines share, for policies with groups; the default is the host");
  app.add_option("--advertise", agent_command_options.agent.advertise, "the address that other workers are told: HOST");
  app.add_option("--interface", agent_command_options.agent.interface_cidr,
                 "use this machine's address within a network, as in 10.0.0.0/16");
  app.add_option("--log", agent_command_options.log, "plain or json (JSON Lines on standard output)");
}

std::string agent_text_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  return !value ? "" : value->is_string() ? value->as_string() : value->dump();
}

void print_plain(const Json& event) {
  const std::string kind = agent_text_of(event, "event");
  std::string line;
  if (kind == "listening") line = "listening on " + agent_text_of(event, "address");
  if (kind == "worker_started")
    line = "started " + agent_text_of(event, "worker") + " (process " + agent_text_of(event, "pid") + ") for " +
           agent_text_of(event, "coordinator");
  if (kind == "worker_not_started") line = "could not start " + agent_text_of(event, "worker") + ": " + agent_text_of(event, "cause");
  if (kind == "worker_ended")
    line = agent_text_of(event, "worker") + (event.find("signal") ? " was killed by signal " + agent_text_of(event, "signal")
                                                                  : " ended with code " + agent_text_of(event, "code"));
  if (kind == "said") line = agent_text_of(event, "worker") + ": " + agent_text_of(event, "line");
  if (kind == "stopping") line = "stopping; " + agent_text_of(event, "workers") + " workers are asked to leave";
  if (!line.empty()) std::printf("%s\n", line.c_str());
}

int run_agent_command() {
  if (agent_command_options.log != "plain" && agent_command_options.log != "json")
    throw Error(ErrorKind::usage, {"--log", "there is no such log", "'" + agent_command_options.log + "'", "plain or json"});
  if (!agent_command_options.secret.empty()) agent_command_options.agent.secret = Secret::from_file(agent_command_options.secret);
  advertised_address("127.0.0.1:1", agent_command_options.agent.advertise,
                     agent_command_options.agent.interface_cidr);  // now, not when each worker starts
  if (!agent_command_options.drain.empty()) return drain_agent(agent_command_options.drain, agent_command_options.agent.secret), 0;
  agent_command_options.agent.log = [json = agent_command_options.log == "json"](const Json& event) {
    if (json) std::printf("%s\n", event.dump().c_str());
    else print_plain(event);
    std::fflush(stdout);
  };
  return run_agent(agent_command_options.agent);
}

}  // namespace

extern const Command command_agent;
const Command command_agent{
    .name = "agent", .doc = "run workers on this machine for others' jobs", .declare = declare_agent, .run = run_agent_command};

}  // namespace perigee
