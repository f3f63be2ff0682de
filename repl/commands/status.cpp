// `perigee status HOST:PORT`: how an agent or a coordinator is.
#include <CLI/App.hpp>
#include <cstdio>
#include <string>

#include "cluster/launch/agent_main.h"
#include "cluster/launch/etcd_lease.h"
#include "repl/commands/command.h"
#include "repl/display/display_cluster.h"
#include "src/core/error.h"

namespace perigee {
namespace {

struct StatusOptions {
  std::string address, secret;
  bool json = false;
} status_options;

void declare_status(CLI::App& app) {
  app.add_option("address", status_options.address,
                 "of an agent, of a run's coordinator or of its standby: host:port; etcd://hosts/name lists the runs there")
      ->required();
  app.add_option("--secret", status_options.secret, "the file with the cluster's secret");
  app.add_flag("--json", status_options.json, "the whole answer as JSON");
}

std::string status_text_of(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return !value ? "" : value->is_string() ? value->as_string() : value->dump();
}

void print_agent(const Json& status) {
  std::printf("agent %s, Perigee %s: %s of %s slots in use\n", status_text_of(status, "name").c_str(),
              status_text_of(status, "version").c_str(), status_text_of(status, "running").c_str(),
              status_text_of(status, "slots").c_str());
  const Json* jobs = status.find("jobs");
  if (!jobs || !jobs->is_array()) return;
  for (const Json& job : jobs->as_array()) {
    std::printf("job %s, coordinator %s, launcher %s\n", status_text_of(job, "job").c_str(), status_text_of(job, "coordinator").c_str(),
                status_text_of(job, "launcher").c_str());
    const Json* workers = job.find("workers");
    if (!workers || !workers->is_array()) continue;
    for (const Json& worker : workers->as_array())
      std::printf("  %-20s %s, %s restarts\n", status_text_of(worker, "name").c_str(), status_text_of(worker, "state").c_str(),
                  status_text_of(worker, "restarts").c_str());
  }
}

void print_coordinator(const Json& status) {
  std::printf("coordinator: %s, round %s, generation %s, %s examples done\n", status_text_of(status, "phase").c_str(),
              status_text_of(status, "round").c_str(), status_text_of(status, "generation").c_str(),
              status_text_of(status, "examples_done").c_str());
  if (const std::string standby = status_text_of(status, "standby"); !standby.empty()) std::printf("standby: %s\n", standby.c_str());
  if (const std::string averaging = averaging_line(status); !averaging.empty()) std::printf("%s\n", averaging.c_str());
  if (const Json* workers = status.find("workers"); workers && workers->is_array())
    std::printf("%s", workers_table(workers->as_array()).c_str());
}

void print_standby(const Json& status) {
  std::printf("standby %s for the coordinator at %s: %s, its copy of the ledger ends with round %s, checkpoint of round %s\n",
              status_text_of(status, "name").c_str(), status_text_of(status, "coordinator").c_str(),
              status_text_of(status, "phase").c_str(), status_text_of(status, "round").c_str(),
              status_text_of(status, "checkpoint_round").c_str());
}

int list_runs() {
  const Json runs = runs_in_etcd(status_options.address);
  if (status_options.json) std::printf("%s\n", runs.dump().c_str());
  else if (runs.as_array().empty()) std::printf("no run is coordinated below %s\n", status_options.address.c_str());
  else
    for (const Json& run : runs.as_array())
      std::printf("%-24s %s, coordinator %s, generation %s, in %s:%s\n", status_text_of(run, "name").c_str(),
                  status_text_of(run, "run").c_str(), status_text_of(run, "address").c_str(), status_text_of(run, "generation").c_str(),
                  status_text_of(run, "host").c_str(), status_text_of(run, "folder").c_str());
  return 0;
}

int run_status() {
  if (is_etcd_address(status_options.address)) return list_runs();
  const Secret secret = status_options.secret.empty() ? Secret() : Secret::from_file(status_options.secret);
  const Json status = ask_status(status_options.address, secret);
  if (status_options.json) std::printf("%s\n", status.dump().c_str());
  else if (status_text_of(status, "role") == "agent") print_agent(status);
  else if (status_text_of(status, "role") == "standby") print_standby(status);
  else print_coordinator(status);
  return 0;
}

}  // namespace

extern const Command command_status;
const Command command_status{
    .name = "status", .doc = "ask an agent or a coordinator how it is", .declare = declare_status, .run = run_status};

}  // namespace perigee
