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

struct WorkerCommandOptions {
  std::string name, secret;
  int key_descriptor = -1;
  bool standby = false, op_by_op = false;
  WorkerMainOptions worker;
} worker_options;

void declare_worker(CLI::App& app) {
  app.add_option("name", worker_options.name, "what it is called in logs and in `ps`; the default is host/pid");
  app.add_option("--join", worker_options.worker.coordinators,
                 "where the coordinator is: host:port; several after commas are tried in turn; or etcd://hosts/name")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  app.add_option("--secret", worker_options.secret, "the file with the cluster's secret");
  app.add_option("--threads", worker_options.worker.threads, "the default is what the coordinator says, or one per core")
      ->check(CLI::PositiveNumber);
  app.add_option("--slot", worker_options.worker.slot, "which of this machine's workers it is, from 0: each has GPUs of its own")
      ->check(CLI::Range(0, 1023));
  app.add_option("--advertise", worker_options.worker.advertise, "the address that other workers are told: HOST[:PORT]");
  app.add_option("--interface", worker_options.worker.interface_cidr, "use this machine's address within a network, as in 10.0.0.0/16");
  app.add_option("--data-root", worker_options.worker.data_root, "open data only under this folder");
  app.add_option("--partition", worker_options.worker.partitions,
                 "NAME=SOURCE: rows that this worker holds and serves to the others (data.at = \"partitions\"), as JSON; may be repeated")
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--site", worker_options.worker.site, "a name that near workers share, for policies with groups; the default is the host");
  app.add_option("--key-fd", worker_options.key_descriptor, "a descriptor to read the job's key from")->group("");
  app.add_flag("--standby", worker_options.standby, "stand by for the coordinator instead of training; agents start this")->group("");
  app.add_option("--parent", worker_options.worker.parent, "end with this process")->group("");
  app.add_flag("--op-by-op", worker_options.op_by_op, "so that a fault of the GPU names its op, for the first 100 steps")->group("");
  app.add_flag("--server", worker_options.worker.server, "hold the parameters of an asynchronous policy instead of training")->group("");
  app.add_option("--record", worker_options.worker.record, "write down what each round is made of")->group("");
  app.add_flag("--patient", worker_options.worker.patient, "go on for a while after SIGTERM")->group("");
}

int run_as_standby() {
  StandbyMainOptions standby{.name = worker_options.name,
                             .coordinator = worker_options.worker.coordinators.front(),
                             .advertise = worker_options.worker.advertise,
                             .interface_cidr = worker_options.worker.interface_cidr,
                             .data_root = worker_options.worker.data_root,
                             .threads = worker_options.worker.threads,
                             .parent = worker_options.worker.parent};
  if (worker_options.key_descriptor < 0)
    throw Error(ErrorKind::usage,
                {.where = "--standby", .what = "a standby is started by an agent", .hint = "see `perigee train --standby`"});
  read_inherited_keys(worker_options.key_descriptor, &standby.key, &standby.secret);
  standby.show = [](const Json& event) {  // the agent repeats what a process writes to standard error
    if (const std::string line = cluster_event_line(event); !line.empty()) std::fprintf(stderr, "%s\n", line.c_str());
  };
  return run_standby(standby);
}

// A run that is not there yet may come.
void look_up_coordinator() {
  std::vector<std::string>& where = worker_options.worker.coordinators;
  if (!is_etcd_address(where.front())) return;
  std::string address;  // its commas had cut it
  for (const std::string& part : where) address += (address.empty() ? "" : ",") + part;
  worker_options.worker.look_up = [address] { return coordinator_in_etcd(address); };
  for (int tenths = 0; !stop_requested(); ++tenths) try {
      where = {coordinator_in_etcd(address)};
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cluster || tenths >= static_cast<int>(worker_options.worker.give_up_ms / 100)) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

int run_worker_command() {
  if (worker_options.standby) return run_as_standby();
  if (worker_options.op_by_op) setenv(kOpByOp, "100", 0);
  worker_options.worker.name = worker_options.name;
  advertised_address("127.0.0.1:1", worker_options.worker.advertise,
                     worker_options.worker.interface_cidr);  // now, not when a coordinator is there
  look_up_coordinator();
  if (!worker_options.secret.empty()) worker_options.worker.secret = Secret::from_file(worker_options.secret);
  worker_options.worker.started_by_us = worker_options.key_descriptor >= 0;
  if (worker_options.worker.started_by_us) worker_options.worker.key = read_inherited_key(worker_options.key_descriptor);
  return run_worker(worker_options.worker);
}

}  // namespace

extern const Command command_worker;
const Command command_worker{
    .name = "worker", .doc = "train for a coordinator: one process of a cluster", .declare = declare_worker, .run = run_worker_command};

}  // namespace perigee
