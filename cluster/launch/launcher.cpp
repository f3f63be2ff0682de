#include "cluster/launch/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>

#include "cluster/data/example_server.h"
#include "cluster/launch/embedded_agent.h"
#include "cluster/launch/etcd_lease.h"
#include "cluster/launch/server_process.h"
#include "cluster/membership/agent_client.h"
#include "cluster/uv/uv_transport.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/net/address.h"
#include "src/net/loop.h"
#include "src/net/timer.h"

namespace perigee {
namespace {

constexpr uint64_t kTickMs = 50;
constexpr uint64_t kTrainedNs = 250'000'000;  // between looks at who has trained
constexpr double kTakeOverMs = 30'000;        // a standby waits so long for the workers that it saw at its door
constexpr double kEndSeconds = 10;            // so long workers may take to end after the run, or to come back and hear of it

double seconds_between(uint64_t from_ns, uint64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

}  // namespace

struct Launcher::Impl final : AgentClientEvents {
  Impl(const Job& job, LaunchOptions given, const std::atomic<bool>& stop)
      : options(std::move(given)),
        own_loop(std::make_unique<UvLoop>()),
        loop(*own_loop),
        session(job, options.session, stop, [this](std::function<void()> work) { defer(std::move(work)); }) {
    const bool alone = options.listen.empty() && options.agents.empty();
    if (session.job().policy.served && !options.standby.empty())
      throw Error(ErrorKind::usage, {.where = "--standby",
                                     .what = "cannot take over from a server, which is lost with this machine",
                                     .got = "averaging '" + session.job().policy.name + "'",
                                     .hint = "leave it out; `perigee train --resume` goes on from the last checkpoint"});
    if (session.job().policy.served && !options.lease.empty())
      throw Error(ErrorKind::usage, {.where = "--lease",
                                     .what = "decides who goes on with the workers' parameters, but here a server holds them",
                                     .got = "averaging '" + session.job().policy.name + "'",
                                     .hint = "leave it out; `perigee train --resume` goes on from the last checkpoint"});
    check_record(alone);
    if (session.job().served && !session.job().served->partitions().empty() && options.listen.empty())
      throw Error(ErrorKind::usage, {.where = "data.at = \"partitions\"",
                                     .what = "needs workers that hold the partitions, and none can join this run",
                                     .got = "no --listen",
                                     .expected = "--listen HOST:PORT, and `perigee worker --join HOST:PORT --partition NAME=SOURCE`"});
    if (alone && options.min_workers > asked_for())
      throw Error(ErrorKind::usage, {.where = "min_workers",
                                     .what = "are more than this run starts, and no others can join it: it would wait for ever",
                                     .got = std::to_string(options.min_workers) + " of " + std::to_string(asked_for()),
                                     .hint = "start more workers, or let others join with listen = \"HOST:PORT\" (--listen)"});
    if (session.job().streams > 0 && alone && asked_for() > session.job().shards)
      throw Error(ErrorKind::usage, {.where = "--workers",
                                     .what = "are more than the shards of the streams, each of which goes on with one worker",
                                     .got = std::to_string(asked_for()) + " workers, data.shards = " + std::to_string(session.job().shards),
                                     .hint = "--set data.shards=" + std::to_string(asked_for()) + ", or fewer workers"});
    // A job has a key of its own, so that its workers cannot join another one. Without a secret everything stays on this machine:
    // workers that we start get a private key, and workers started by others get in without one.
    if (!options.secret.empty()) key = options.secret.for_job(session.job_id());
    else if (alone) key = Secret::random();
    UvTransportOptions transport_options{.key = key};
    if (!options.secret.empty()) transport_options.accepted_keys.push_back(options.secret);
    transport = std::make_unique<UvTransport>(loop, transport_options);
    agent_key = options.secret.empty() ? Secret::random() : options.secret;
    listen(alone);

    CoordinatorOptions coordinator_options = session.coordinator_options();
    coordinator_options.job_id = session.job_id();
    coordinator_options.address = address;
    coordinator_options.standby = options.standby;
    coordinator_options.launch = told_to_standby().dump();
    coordinator_options.min_workers = options.min_workers;
    coordinator_options.expected_workers = options.expected_workers + asked_for();
    warn_of_gain(coordinator_options.policy, coordinator_options.expected_workers);
    warn_of_weights(session.job());
    coordinator_options.takes_over = !alone && session.continues_crashed_run();
    coordinator_options.recorded = !server_record().empty() || !worker_record().empty();
    session.check_plateau(coordinator_options.recorded);
    if (!options.lease.empty()) lease = std::make_unique<EtcdLease>(options.lease, session.job_id(), address, about_run());
    if (!alone) coordinator_options.threads = static_cast<int>(options.session.trainer.threads);
    coordinate(std::move(coordinator_options));
  }

  Impl(Handover handover, LaunchOptions given, const std::atomic<bool>& stop)
      : options(std::move(given)),
        loop(handover.loop),
        session(
            std::move(handover.job), options.session, stop, [this](std::function<void()> work) { defer(std::move(work)); }, handover.job_id,
            handover.inheritance, handover.from),
        key(handover.key),
        agent_key(options.secret),
        transport(std::move(handover.transport)),
        address(handover.address),
        inheritance(std::move(handover.inheritance)),
        from(handover.from),
        cause(handover.cause) {
    session.set_address(handover.listening);
    CoordinatorOptions coordinator_options = session.coordinator_options();
    coordinator_options.job_id = session.job_id();
    coordinator_options.address = address;
    coordinator_options.min_workers = options.min_workers;
    coordinator_options.threads = static_cast<int>(options.session.trainer.threads);
    coordinator_options.takes_over = coordinator_options.is_standby = true;
    coordinator_options.take_over_ms = kTakeOverMs;
    coordinator_options.generation = inheritance->generation;
    coordinator_options.memberships = std::move(inheritance->memberships);
    coordinator_options.who = std::move(inheritance->who);
    coordinator_options.steering = std::move(inheritance->steering);
    coordinator_options.old_coordinator = from;
    if (!options.lease.empty()) lease = std::make_unique<EtcdLease>(options.lease, session.job_id(), address, about_run(), false);
    coordinate(std::move(coordinator_options));
  }

  void coordinate(CoordinatorOptions coordinator_options) {
    coordinator_options.steerable = !options.secret.empty();
    coordinator_options.lease = lease.get();
    if (const ServedData* served = session.job().served.get()) {
      examples = std::make_unique<ExampleServer>(served->sources(), *transport, [this] { wake_examples(); });
      coordinator_options.example_service = examples.get();
    }
    coordinator = std::make_unique<Coordinator>(std::move(coordinator_options), loop, rng, *transport, session.ledger(), session);
    transport->set_events(coordinator.get());
    timer.start(kTickMs, kTickMs);
  }

  static void warn_of_gain(const Policy& policy, int workers) {
    if (workers < 2 || policy.outer.empty() || policy.served) return;  // a server takes one change after the other
    const double gain = policy.gain(workers);
    if (gain <= kSafeGain * workers) return;
    char text[200];
    std::snprintf(text, sizeof text,
                  "averaging '%s' has an outer gain of %.3g, more than the %d workers: if the loss grows, lower its momentum or rate",
                  policy.name.c_str(), gain, workers);
    warn(text);
  }

  // Payloads say for how many examples they stand, not for what weight.
  static void warn_of_weights(const ClusterJob& job) {
    const Policy& policy = job.policy;
    const bool by_examples = policy.what == Policy::What::parameters &&
                             (policy.served ? policy.merge_every > 1 : policy.coded() || policy.partial() || !policy.inner.codec.is_null());
    if (job.weighted && by_examples)
      warn("averaging '" + policy.name +
           "' weighs each worker's part by its examples, although lengths, masks, weights or an ignored class make them count differently; "
           "without codec, fragments and overlap it goes by what they count");
  }

  // From the threads that read; what any number of them have read needs one turn of the loop.
  void wake_examples() {
    if (examples_woken.exchange(true)) return;
    loop.post([this] {
      examples_woken = false;
      examples->deliver();
    });
  }

  void listen(bool alone) {
    if (alone) {
      address = transport->listen("127.0.0.1:0");
      return;
    }
    const std::string wanted = !options.listen.empty() ? options.listen : options.secret.empty() ? "127.0.0.1:0" : ":0";
    // Workers that outlived their launcher look for it where it was.
    const bool where_it_was = options.listen.empty() && session.continues_crashed_run() && !session.earlier_address().empty();
    std::string listening;
    try {
      listening = transport->listen(where_it_was ? session.earlier_address() : wanted);
    } catch (const Error&) {
      if (!where_it_was) throw;
      listening = transport->listen(wanted);
    }
    address = advertised_address(listening, options.advertise, options.interface_cidr);
    session.set_address(listening);
  }

  int asked_for() const {
    return options.agents.empty() ? options.workers : static_cast<int>(options.agents.size()) * std::max(1, options.workers);
  }

  void expect_started() {
    const int coming = options.expected_workers + static_cast<int>(client->workers());
    defer([this, coming] { coordinator->expect_workers(std::max(0, coming)); });
  }

  // For the session: the coordinator must not be called from within its own events. Bounded by what one event can cause.
  void defer(std::function<void()> work) {
    const bool taken = loop.post(std::move(work));
    assert(taken);
    static_cast<void>(taken);
  }

  // The parts of this command line that a standby's launcher needs.
  Json told_to_standby() const {
    Json agents = Json::array();
    for (const std::string& agent : options.agents) agents.push(agent);
    return Json(Json::Object{{"agents", std::move(agents)},
                             {"workers", options.workers},
                             {"min_workers", options.min_workers},
                             {"lease", options.lease},
                             {"threads", static_cast<int64_t>(options.session.trainer.threads)}});
  }

  // The workers that stand at the door have said Join to the standby; it is the coordinator that answers.
  void welcome_arrivals() {
    for (const Inheritance::Arrival& arrival : inheritance->arrivals) {
      coordinator->on_connected(arrival.peer, arrival.address);
      for (const auto& frame : arrival.frames) coordinator->on_frame(arrival.peer, frame);
    }
    inheritance->arrivals.clear();
  }

  // Enough workers follow: from now on this process speaks for the run.
  void take_over() {
    taken_over = true;
    session.tell(Json(Json::Object{{"event", "took_over"},
                                   {"from", from},
                                   {"cause", "the coordinator at " + from + " was lost: " + cause},
                                   {"done", "this standby at " + address + " coordinates; the run's folder here is " + session.folder()},
                                   {"generation", static_cast<int64_t>(coordinator->generation())},
                                   {"round", coordinator->round()}}));
    start_workers();
  }

  // For the registry of runs.
  Json about_run() const {
    return Json(Json::Object{{"run", session.job().facts.name}, {"host", host_name()}, {"folder", session.folder()}});
  }

  AgentOptions agent_options() const {
    AgentOptions own;
    if (!options.restarts.empty()) read_restarts(options.restarts, "--restarts", &own);
    return own;
  }

  void start_workers() {
    AgentClientOptions client_options{.agents = options.agents, .job_id = session.job_id(), .standby = options.standby};
    client_options.start = {.version = PERIGEE_VERSION,
                            .job_name = session.job().facts.name,
                            .coordinator = address,
                            .key = key.empty() ? "" : key.hex(),
                            .workers = static_cast<uint32_t>(options.workers),
                            .threads = static_cast<uint32_t>(options.session.trainer.threads),
                            .generation = coordinator->generation()};
    if (session.job().policy.served)
      server = std::make_unique<ServerProcess>(
          loop, rng, agent_key, client_options, agent_options(), server_arguments(),
          [this](const std::string& who, const std::string& line) { hear(who, line); }, *this);
    if (options.agents.empty() && options.workers > 0) {
      AgentOptions own = agent_options();
      own.name = host_name();
      own.slots = static_cast<uint32_t>(options.workers);
      embedded =
          std::make_unique<EmbeddedAgent>(loop, rng, agent_key, std::move(own), with_record(options.worker_arguments, worker_record()),
                                          [this](const std::string& worker, const std::string& line) { hear(worker, line); });
      client_options.agents = {embedded->address};
    }
    if (client_options.agents.empty() && client_options.standby.empty()) return;
    client_transport = std::make_unique<UvTransport>(loop, UvTransportOptions{.key = agent_key});
    client = std::make_unique<AgentClient>(std::move(client_options), loop, rng, *client_transport, *this);
    client_transport->set_events(client.get());
    client->start();
  }

  // All that a run depends on besides its job is written down by the server, or by workers that train while a round is on its way.
  void check_record(bool alone) const {
    if (!options.record || session.job().policy.served) return;
    const Policy& policy = session.job().policy;
    if (!policy.partial() || policy.inner.active() || policy.sync_until > 0)
      throw Error(ErrorKind::usage, {.where = "--record",
                                     .what = "is for asynchronous policies, and those that train while a round is on its way",
                                     .got = "averaging '" + policy.name + "'",
                                     .expected = "one with a server; or with fragments or overlap, without groups and without sync_until",
                                     .hint = "leave it out, or train with averaging = pg.averaging.async_local {}"});
    if (!alone)
      throw Error(ErrorKind::usage,
                  {.where = "--record",
                   .what = "needs the workers on this machine, where their records are written, with averaging '" + policy.name + "'",
                   .hint = "leave out --agents and --listen"});
  }

  // A run that was recorded from its beginning is recorded to its end. Empty: it is not.
  std::string server_record() const {
    const std::string record = session.folder() + "/record.jsonl";
    return session.job().policy.served && (options.record || file_exists(record)) ? record : "";
  }
  std::string worker_record() const {
    const std::string record = session.folder() + "/record";
    return !session.job().policy.served && (options.record || folder_exists(record)) ? record : "";
  }

  static std::vector<std::string> with_record(std::vector<std::string> arguments, const std::string& record) {
    if (!record.empty()) arguments.insert(arguments.end(), {"--record", record});
    return arguments;
  }

  std::vector<std::string> server_arguments() const {
    std::vector<std::string> arguments = options.worker_arguments;
    arguments.push_back("--server");
    return with_record(std::move(arguments), server_record());
  }

  // A worker's line on standard error: a warning, unless it is its last word, which its end will tell.
  void hear(const std::string& worker, const std::string& line) {
    if (line.starts_with("warning: ")) warn(worker + ": " + line.substr(9));
  }

  void tick() {
    session.tick();
    if (loop.now_ns() - trained_ns > kTrainedNs) trained_ns = loop.now_ns(), tell_trained();
    if (inheritance && !taken_over && coordinator->established()) take_over();
    if (!session.over()) return;
    if (client && session.superseded()) client->abandon();
    const uint64_t now = loop.now_ns();
    if (ended_ns == 0) {
      ended_ns = now;
      timer.start(5, 5);
    }
    const double waited = seconds_between(ended_ns, now);
    // Workers that joined by themselves are not ours to end.
    const std::vector<std::string> unheard = options.listen.empty() ? std::vector<std::string>() : coordinator->expected_back();
    const bool quiet = transport->peers() == 0 && unheard.empty();
    const size_t processes = (embedded ? embedded->agent.processes() : 0) + (server ? server->processes() : 0);
    // They heard it from the coordinator; who has not gone by himself is asked, then made to.
    if (client && (processes == 0 || waited > 2)) client->stop(true);
    if (server && (processes == 0 || waited > 2)) server->stop();
    if (quiet && processes == 0) return loop.stop();
    if (waited <= kEndSeconds) return;
    for (const std::string& name : unheard) tell_unheard(name);
    loop.stop();
  }

  // The user does not wait for it any longer.
  void tell_unheard(const std::string& worker) {
    session.tell(Json(Json::Object{{"event", "worker_unreached"},
                                   {"worker", worker},
                                   {"cause", "it has not shown for " + std::to_string(static_cast<int>(kEndSeconds)) +
                                                 " s that it heard of the end: it was cut off, stopped or has died"},
                                   {"done", "if it lives it ends by itself, two minutes after it lost the coordinator"}}));
  }

  void on_agent_event(const Json& event) override { session.tell(event); }
  void on_workers_started(const std::string&, uint32_t) override {
    ++agents_started;
    if (agents_started == options.agents.size()) expect_started();  // fewer or more than asked for
  }
  void on_process_end(const ProcessEnd& end) override {
    session.on_process_end(end);
    if (end.standby) return;
    coordinator->note_death(end.worker, end.pid);
    if (server && server->owns(end.worker)) {
      if (!end.restarted && !session.over()) fail_of(end, "the server will not be started again");
      return;
    }
    if (end.restarted || session.over()) return;
    if (agents_started >= std::max<size_t>(1, options.agents.size())) expect_started();
  }
  // When no worker of ours is left and none will be started again, no other comes either.
  void on_none_left(const ProcessEnd& last) override {
    if (session.over() || !options.listen.empty() || !coordinator->workers().empty()) return;
    fail_of(last, "no worker is left");
  }
  // A worker that has trained is no lost case, however often it is killed: its agent is told.
  void tell_trained() {
    for (const WorkerView& view : coordinator->workers()) {
      if (view.step <= 0 || view.id <= told_trained[view.name]) continue;
      told_trained[view.name] = view.id;
      if (client) client->trained(view.name);
      if (server) server->trained(view.name);
    }
  }
  void fail_of(const ProcessEnd& end, const std::string& why) {
    if (std::exchange(failed, true)) return;
    const ErrorKind kind = end.signal == 0 && end.code >= 2 && end.code <= 7 ? static_cast<ErrorKind>(end.code) : ErrorKind::cluster;
    const Error error(kind,
                      {.where = "worker " + end.worker, .what = cause_of(end) + "; " + (end.next.empty() ? "" : end.next + "; ") + why});
    defer([this, error] { session.fail(error); });
  }
  void on_agents_failed(const Error& error) override {
    defer([this, error] { session.fail(error); });
  }

  LaunchOptions options;
  std::unique_ptr<UvLoop> own_loop;  // null: a standby's
  UvLoop& loop;
  SystemRng rng;
  ClusterSession session;
  Secret key, agent_key;
  std::unique_ptr<UvTransport> transport, client_transport;
  std::unique_ptr<ExampleServer> examples;  // null: workers read the data themselves
  std::atomic<bool> examples_woken{false};
  std::unique_ptr<EtcdLease> lease;  // null: none outside
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<EmbeddedAgent> embedded;
  std::unique_ptr<AgentClient> client;
  std::unique_ptr<ServerProcess> server;  // of a served policy
  std::string address;
  std::optional<Inheritance> inheritance;  // of a standby
  std::string from, cause;
  bool taken_over = false;
  UvTimer timer{loop, [this] { tick(); }};
  uint64_t ended_ns = 0;
  size_t agents_started = 0;
  bool failed = false;
  std::map<std::string, WorkerId> told_trained;  // by name: bounded by the slots of the agents
  uint64_t trained_ns = 0;
};

Launcher::Launcher(const Job& job, LaunchOptions options, const std::atomic<bool>& stop)
    : impl_(std::make_unique<Impl>(job, std::move(options), stop)) {}
Launcher::Launcher(Handover handover, LaunchOptions options, const std::atomic<bool>& stop)
    : impl_(std::make_unique<Impl>(std::move(handover), std::move(options), stop)) {}
Launcher::~Launcher() = default;

ClusterSession& Launcher::session() { return impl_->session; }
const std::string& Launcher::address() const { return impl_->address; }

const Secret& Launcher::key() const { return impl_->key; }

bool Launcher::post(std::function<void(Coordinator&)> work) {
  return impl_->loop.post([this, work = std::move(work)] { work(*impl_->coordinator); });
}

Json Launcher::run() {
  impl_->session.start(*impl_->coordinator);
  if (impl_->inheritance) impl_->welcome_arrivals();
  else impl_->start_workers();
  impl_->loop.run();
  return impl_->session.result();
}

}  // namespace perigee
