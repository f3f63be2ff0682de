#include "repl/commands/train_cluster.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cluster/launch/launcher.h"
#include "cluster/launch/phased_run.h"
#include "cluster/launch/worker_main.h"
#include "repl/commands/quantity.h"
#include "repl/signals.h"
#include "src/core/cores.h"
#include "src/core/error.h"
#include "src/io/store/etcd.h"
#include "src/job/job_parts.h"
#include "src/net/address.h"

namespace perigee {

void declare_cluster_options(CLI::App& app, ClusterOptions* options) {
  app.add_option("--workers", options->workers, "train with so many worker processes on this machine; with --agents, on each of theirs")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->group("Cluster");
  app.add_option("--agents", options->agents, "train on the machines of these agents: host:port,host:port,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Cluster");
  app.add_option("--listen", options->listen, "where workers may join by themselves while it trains: [HOST]:PORT")->group("Cluster");
  app.add_option("--min-workers", options->min_workers, "wait until so many workers are there, also when some are lost")
      ->check(CLI::PositiveNumber)
      ->group("Cluster");
  app.add_option("--secret", options->secret,
                 "the file with the cluster's secret: who has it may join, and steer with `perigee attach`; `perigee secret new` makes one")
      ->group("Cluster");
  app.add_option("--advertise", options->advertise, "the address that workers are told, where it is not the one listened on: HOST[:PORT]")
      ->group("Cluster");
  app.add_option("--interface", options->interface_cidr, "use this machine's address within a network, as in 10.0.0.0/16")
      ->group("Cluster");
  app.add_option("--standby", options->standby, "the agent that starts a standby, which takes over should this process be lost: host:port")
      ->group("Cluster");
  app.add_option("--lease", options->lease, "a key in etcd: who holds it coordinates, the others wait: etcd://HOST:PORT,HOST:PORT,.../NAME")
      ->group("Cluster");
  app.add_option("--restarts", options->restarts, "of a worker here that does not come to train, N/PERIOD; the default is 5/60s")
      ->group("Cluster");
  app.add_option("--stop-wait", options->stop_wait,
                 "so long a run that is asked to end waits for its last checkpoint, as in 2min; the default is 25s")
      ->group("Cluster");
  app.add_flag("--record", options->record,
               "of an asynchronous run, or of fragments and overlap, write down what `perigee replay` needs to train it again bit for bit")
      ->group("Cluster");
  app.add_option("--engine", options->engine, "the scheduler that started this process: auto, none, or a name of `perigee doctor`")
      ->group("Cluster");
  app.add_option("--parent", options->parent, "stop, as after SIGTERM, when this process ends")->group("");
}

bool in_cluster(const ClusterOptions& options) {
  if (options.workers > 0 || !options.agents.empty() || !options.listen.empty()) return true;
  for (const auto& [name, given] : {std::pair{"--min-workers", options.min_workers > 0},
                                    {"--advertise", !options.advertise.empty()},
                                    {"--interface", !options.interface_cidr.empty()},
                                    {"--standby", !options.standby.empty()},
                                    {"--lease", !options.lease.empty()},
                                    {"--secret", !options.secret.empty()},
                                    {"--restarts", !options.restarts.empty()},
                                    {"--stop-wait", !options.stop_wait.empty()},
                                    {"--record", options.record}})
    if (given)
      throw Error(ErrorKind::usage,
                  {.where = name, .what = "says how a cluster trains, but there is none", .hint = "add --workers, --agents or --listen"});
  return false;
}

std::string cluster_arguments(const ClusterOptions& options) {
  std::string text;
  if (options.workers > 0) text += " --workers " + std::to_string(options.workers);
  std::string agents;
  for (const std::string& agent : options.agents) agents += (agents.empty() ? "" : ",") + agent;
  for (const auto& [name, value] : {std::pair{" --agents ", agents},
                                    {" --listen ", options.listen},
                                    {" --secret ", options.secret},
                                    {" --advertise ", options.advertise},
                                    {" --interface ", options.interface_cidr},
                                    {" --restarts ", options.restarts},
                                    {" --stop-wait ", options.stop_wait},
                                    {" --lease ", options.lease},
                                    {" --standby ", options.standby}})
    if (!value.empty()) text += name + value;
  if (options.record) text += " --record";
  if (options.min_workers > 0) text += " --min-workers " + std::to_string(options.min_workers);
  return text;
}

std::optional<Engine> engine_of(const ClusterOptions& options) {
  if (options.workers > 0 || !options.agents.empty() || !options.listen.empty()) return std::nullopt;
  auto engine = find_engine(options.engine, [](const char* name) { return std::getenv(name); });
  if (!engine || engine->size == 1) return std::nullopt;
  if (!engine->exchange && engine->meeting_file.empty() && (options.secret.empty() || engine->coordinator.empty()))
    throw Error(
        ErrorKind::usage,
        {"--secret", "the " + std::to_string(engine->size) + " processes of " + engine->name + " need a secret to know each other by", "",
         "", "`perigee secret new > cluster.key`, copy it to every machine, and give each process --secret cluster.key"});
  return engine;
}

namespace {

// PERIGEE_MEETING_SECONDS: how long the processes of a launcher wait for the first one.
int meeting_seconds() {
  const char* const given = std::getenv("PERIGEE_MEETING_SECONDS");
  const int seconds = given ? std::atoi(given) : 0;
  return seconds > 0 && seconds <= 86400 ? seconds : 120;
}

// A launcher may have bound each of its processes to cores of its own, which are not shared out again.
int cores_of(const Engine& engine) { return std::min(available_cores(), std::max(1, machine_cores() / engine.local_size)); }

// Where the first process of the engine is, once it has told.
Meeting wait_for_meeting(const Engine& engine) {
  if (engine.exchange) return engine.exchange(nullptr, stop_requested());
  for (int tenths = 0, most = 10 * meeting_seconds(); tenths < most && !stop_requested(); ++tenths) {
    if (const auto meeting = read_meeting(engine.meeting_file)) return *meeting;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error(ErrorKind::cluster, {.where = engine.name + " rank " + std::to_string(engine.rank),
                                   .what = "rank 0 did not write where it is",
                                   .expected = engine.meeting_file,
                                   .hint = "start the job in a folder that all machines share, or give every process --secret"});
}

// A cluster's name service may learn of the first process later than this one is started.
void wait_for_name(const std::string& coordinator) {
  for (int tenths = 0; !coordinator.empty() && !stop_requested(); ++tenths) try {
      address_towards(coordinator);
      return;
    } catch (const Error&) {
      if (tenths >= 10 * meeting_seconds()) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

// Tells the others. Removes the file again, whatever ends the run.
class MeetingFile {
 public:
  MeetingFile(const Engine& engine, const Launcher& launcher) : file_(engine.exchange ? "" : engine.meeting_file) {
    const Meeting mine = {launcher.address(), launcher.key().hex()};
    if (engine.exchange) engine.exchange(&mine, stop_requested());
    else if (!file_.empty()) write_meeting(file_, mine);
  }
  ~MeetingFile() {
    if (!file_.empty()) std::remove(file_.c_str());
  }

 private:
  std::string file_;
};

Json engine_event(const Engine& engine, const std::string& address) {
  Json event = Json(Json::Object{{"event", "engine"},
                                 {"engine", engine.name},
                                 {"processes", engine.size},
                                 {"cause", "started by " + engine.name + " as rank 0 of " + std::to_string(engine.size)},
                                 {"done", "coordinates at " + address + "; the other ranks are its workers"}});
  if (engine.restarts > 0) event.set("restarts", engine.restarts);
  if (!engine.advice.empty()) event.set("advice", engine.advice);
  return event;
}

}  // namespace

std::string engine_folder(const Engine& engine, const std::string& job_name) {
  return engine.lasting ? "runs/" + job_name + "-" + engine.name + "-" + file_name_of(engine.job) : "";
}

int train_for_engine(const Engine& engine, const ClusterOptions& options, int threads) {
  WorkerMainOptions worker{.advertise = options.advertise,
                           .interface_cidr = options.interface_cidr,
                           .threads = threads > 0 ? threads : cores_of(engine),
                           .give_up_ms = 30'000,
                           .started_by_us = true,
                           .patient = true};
  worker.slot = engine.local_rank;
  worker.name = host_name() + "/rank" + std::to_string(engine.rank);
  if (engine.stop_signal != 0) std::signal(engine.stop_signal, SIG_IGN);  // rank 0 hears it, too, and ends the run
  if (!options.secret.empty()) {
    worker.secret = Secret::from_file(options.secret);
    worker.coordinators = {engine.coordinator};
    wait_for_name(engine.coordinator);
  }
  if (worker.secret.empty() || engine.coordinator.empty()) {
    const Meeting meeting = wait_for_meeting(engine);
    worker.secret = Secret();
    worker.key = Secret::from_hex(meeting.key, engine.meeting_file);
    worker.coordinators = {meeting.address};
  }
  return run_worker(worker);
}

namespace {

Json launch_run(const Job& job, const ClusterOptions& options, const Engine* engine, ClusterSessionOptions session, const ShowEvent& show) {
  LaunchOptions launch;
  launch.workers = engine ? 1 : static_cast<int>(options.workers);
  if (engine) launch.expected_workers = engine->size - 1;  // the other ranks
  launch.agents = options.agents;
  launch.listen = options.listen;
  launch.advertise = options.advertise;
  launch.interface_cidr = options.interface_cidr;
  launch.standby = options.standby;
  launch.lease = options.lease;
  if (!options.lease.empty() && !is_etcd_address(options.lease))
    throw Error(
        ErrorKind::usage,
        {.where = "--lease", .what = "is no address of etcd", .got = options.lease, .expected = "etcd://HOST:PORT,HOST:PORT,.../NAME"});
  launch.record = options.record;
  launch.restarts = options.restarts;
  if (!options.stop_wait.empty()) session.stop_wait_s = parse_duration(options.stop_wait, "--stop-wait");
  if (!options.standby.empty() && (engine || (options.agents.empty() && options.listen.empty())))
    throw Error(ErrorKind::usage, {.where = "--standby",
                                   .what = "these workers end with this process: none would be left to go on with",
                                   .hint = "train with --agents, or with --listen and workers of other machines"});
  if (!options.standby.empty() && options.secret.empty())
    throw Error(ErrorKind::usage,
                {.where = "--standby", .what = "the agent there is reached with the cluster's secret", .hint = "add --secret FILE"});
  launch.min_workers = static_cast<int>(std::max<int64_t>(1, options.min_workers));
  if (!options.secret.empty()) launch.secret = Secret::from_file(options.secret);
  if (engine) {
    const bool one_machine = engine->local_size == engine->size;
    launch.listen = one_machine ? "127.0.0.1:0" : ":0";
    if (!options.secret.empty() && !engine->coordinator.empty()) launch.listen = engine->coordinator.substr(engine->coordinator.rfind(':'));
    if (launch.secret.empty()) launch.secret = Secret::random();
    if (engine->stop_signal != 0) watch_signal(engine->stop_signal);
  }
  const int here = engine ? engine->local_size : options.agents.empty() ? static_cast<int>(options.workers) : 0;
  if (here > 0 && session.trainer.threads <= 0)
    session.trainer.threads = engine ? cores_of(*engine) : std::max(1, available_cores() / here);
  if (!launch.listen.empty())
    for (const auto& [name, value] : {std::pair{"--advertise", options.advertise}, {"--interface", options.interface_cidr}})
      if (!value.empty()) launch.worker_arguments.insert(launch.worker_arguments.end(), {name, value});
  launch.session = std::move(session);

  Launcher launcher(job, std::move(launch), stop_requested());
  launcher.session().add_sink([&](const Json& event) { show(event, launcher.session().folder()); });
  std::optional<MeetingFile> meeting;
  if (engine) {
    launcher.session().tell(engine_event(*engine, launcher.address()));
    meeting.emplace(*engine, launcher);
  }
  return launcher.run();
}

// The workers of a phase end with it.
void refuse_for_phases(const ClusterOptions& options, const Engine* engine) {
  const std::pair<const char*, const char*> gone =
      engine                     ? std::pair{"processes of a scheduler, which end with the first", "add --engine none"}
      : !options.listen.empty()  ? std::pair{"workers that join by themselves, and end with the first", "leave out --listen"}
      : !options.standby.empty() ? std::pair{"a standby, which goes on with one", "leave out --standby"}
                                 : std::pair{"", ""};
  if (*gone.first)
    throw Error(ErrorKind::usage, {"phases", "make a run of several workers start them for each phase", gone.first,
                                   "workers that each phase starts", gone.second});
}

}  // namespace

Json train_in_cluster(const Job& job, const ClusterOptions& options, const Engine* engine, ClusterSessionOptions session,
                      const ShowEvent& show) {
  if (phase_count(job) == 0) return launch_run(job, options, engine, std::move(session), show);
  refuse_for_phases(options, engine);
  PhasedRun run(job, std::move(session), [&](const Job& phase, ClusterSessionOptions own, const RunLog::Sink& sink) {
    return launch_run(phase, options, nullptr, std::move(own), [&](const Json& event, const std::string&) { sink(event); });
  });
  run.add_sink([&](const Json& event) { show(event, run.folder()); });
  return run.run();
}

}  // namespace perigee
