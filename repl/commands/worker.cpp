// `perigee worker`: trains for a coordinator until the run ends. Agents and `train --workers` start it; a person may, too.
#include <CLI/App.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cluster/launch/etcd_lease.h"
#include "cluster/launch/standby_main.h"
#include "cluster/launch/worker_main.h"
#include "repl/commands/command.h"
#include "repl/display/display_cluster.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/device/gpu.h"
#include "src/net/address.h"

namespace perigee {
namespace {

struct Options {
  std::string name, secret;
  int key_descriptor = -1;
  bool standby = false, op_by_op = false;
  WorkerMainOptions worker;
} options;

void declare(CLI::App& app) {
  app.add_option("name", options.name, "what it is called in logs and in `ps`; the default is host/pid");
  app.add_option("--join", options.worker.coordinators,
                 "where the coordinator is: host:port; several after commas are tried in turn; or etcd://hosts/name")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  app.add_option("--secret", options.secret, "the file with the cluster's secret");
  app.add_option("--threads", options.worker.threads, "the default is what the coordinator says, or one per core")
      ->check(CLI::PositiveNumber);
  app.add_option("--slot", options.worker.slot, "which of this machine's workers it is, from 0: each has GPUs of its own")
      ->check(CLI::Range(0, 1023));
  app.add_option("--advertise", options.worker.advertise, "the address that other workers are told: HOST[:PORT]");
  app.add_option("--interface", options.worker.interface_cidr, "use this machine's address within a network, as in 10.0.0.0/16");
  app.add_option("--data-root", options.worker.data_root, "open data only under this folder");
  app.add_option("--site", options.worker.site, "a name that near workers share, for policies with groups; the default is the host");
  app.add_option("--key-fd", options.key_descriptor, "a descriptor to read the job's key from")->group("");
  app.add_flag("--standby", options.standby, "stand by for the coordinator instead of training; agents start this")->group("");
  app.add_option("--parent", options.worker.parent, "end with this process")->group("");
  app.add_flag("--op-by-op", options.op_by_op, "so that a fault of the GPU names its op, for the first 100 steps")->group("");
  app.add_flag("--server", options.worker.server, "hold the parameters of an asynchronous policy instead of training")->group("");
  app.add_option("--record", options.worker.record, "write down what each round is made of")->group("");
  app.add_flag("--patient", options.worker.patient, "go on for a while after SIGTERM")->group("");
}

int run_as_standby() {
  StandbyMainOptions standby{.name = options.name,
                             .coordinator = options.worker.coordinators.front(),
                             .advertise = options.worker.advertise,
                             .interface_cidr = options.worker.interface_cidr,
                             .data_root = options.worker.data_root,
                             .threads = options.worker.threads,
                             .parent = options.worker.parent};
  if (options.key_descriptor < 0)
    throw Error(ErrorKind::usage,
                {.where = "--standby", .what = "a standby is started by an agent", .hint = "see `perigee train --standby`"});
  read_inherited_keys(options.key_descriptor, &standby.key, &standby.secret);
  standby.show = [](const Json& event) {  // the agent repeats what a process writes to standard error
    if (const std::string line = cluster_event_line(event); !line.empty()) std::fprintf(stderr, "%s\n", line.c_str());
  };
  return run_standby(standby);
}

// A run that is not there yet may come.
void look_up_coordinator() {
  std::vector<std::string>& where = options.worker.coordinators;
  if (!is_etcd_address(where.front())) return;
  std::string address;  // its commas had cut it
  for (const std::string& part : where) address += (address.empty() ? "" : ",") + part;
  options.worker.look_up = [address] { return coordinator_in_etcd(address); };
  for (int tenths = 0; !stop_requested(); ++tenths) try {
      where = {coordinator_in_etcd(address)};
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cluster || tenths >= static_cast<int>(options.worker.give_up_ms / 100)) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

int run() {
  if (options.standby) return run_as_standby();
  if (options.op_by_op) setenv(kOpByOp, "100", 0);
  options.worker.name = options.name;
  advertised_address("127.0.0.1:1", options.worker.advertise, options.worker.interface_cidr);  // now, not when a coordinator is there
  look_up_coordinator();
  if (!options.secret.empty()) options.worker.secret = Secret::from_file(options.secret);
  options.worker.started_by_us = options.key_descriptor >= 0;
  if (options.worker.started_by_us) options.worker.key = read_inherited_key(options.key_descriptor);
  return run_worker(options.worker);
}

}  // namespace

extern const Command command_worker;
const Command command_worker{.name = "worker", .doc = "train for a coordinator: one process of a cluster", .declare = declare, .run = run};

}  // namespace perigee
