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

struct Options {
  std::string secret, log = "plain", drain;
  AgentMainOptions agent;
} options;

void declare(CLI::App& app) {
  app.add_option("--listen", options.agent.listen, "HOST:PORT; without a secret only on this machine; the default is a free port there");
  app.add_option("--secret", options.secret, "the file with the cluster's secret; `perigee secret new` makes one");
  app.add_option("--data-root", options.agent.data_root, "workers open data only under this folder; relative paths start there");
  app.add_option("--slots", options.agent.slots, "workers at a time, of all jobs; the default is one per core")->check(CLI::PositiveNumber);
  app.add_option("--restarts", options.agent.restarts, "of a worker that does not come to train, N/PERIOD; the default is 5/60s");
  app.add_option("--drain", options.drain, "end the agent at HOST:PORT: its workers leave their runs at the end of a round");
  app.add_option("--name", options.agent.name, "what it is called in logs; the default is the host's name");
  app.add_option("--site", options.agent.site, "a name that near machines share, for policies with groups; the default is the host");
  app.add_option("--advertise", options.agent.advertise, "the address that other workers are told: HOST");
  app.add_option("--interface", options.agent.interface_cidr, "use this machine's address within a network, as in 10.0.0.0/16");
  app.add_option("--log", options.log, "plain or json (JSON Lines on standard output)");
}

std::string text_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  return !value ? "" : value->is_string() ? value->as_string() : value->dump();
}

void print_plain(const Json& event) {
  const std::string kind = text_of(event, "event");
  std::string line;
  if (kind == "listening") line = "listening on " + text_of(event, "address");
  if (kind == "worker_started")
    line = "started " + text_of(event, "worker") + " (process " + text_of(event, "pid") + ") for " + text_of(event, "coordinator");
  if (kind == "worker_not_started") line = "could not start " + text_of(event, "worker") + ": " + text_of(event, "cause");
  if (kind == "worker_ended")
    line = text_of(event, "worker") +
           (event.find("signal") ? " was killed by signal " + text_of(event, "signal") : " ended with code " + text_of(event, "code"));
  if (kind == "said") line = text_of(event, "worker") + ": " + text_of(event, "line");
  if (kind == "stopping") line = "stopping; " + text_of(event, "workers") + " workers are asked to leave";
  if (!line.empty()) std::printf("%s\n", line.c_str());
}

int run() {
  if (options.log != "plain" && options.log != "json")
    throw Error(ErrorKind::usage, {"--log", "there is no such log", "'" + options.log + "'", "plain or json"});
  if (!options.secret.empty()) options.agent.secret = Secret::from_file(options.secret);
  advertised_address("127.0.0.1:1", options.agent.advertise, options.agent.interface_cidr);  // now, not when each worker starts
  if (!options.drain.empty()) return drain_agent(options.drain, options.agent.secret), 0;
  options.agent.log = [json = options.log == "json"](const Json& event) {
    if (json) std::printf("%s\n", event.dump().c_str());
    else print_plain(event);
    std::fflush(stdout);
  };
  return run_agent(options.agent);
}

}  // namespace

extern const Command command_agent;
const Command command_agent{.name = "agent", .doc = "run workers on this machine for others' jobs", .declare = declare, .run = run};

}  // namespace perigee
