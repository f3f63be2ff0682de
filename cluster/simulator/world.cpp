#include "cluster/simulator/world.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <utility>

#include "cluster/policy/policy.h"
#include "cluster/simulator/world_impl.h"
#include "src/core/error.h"

namespace perigee::sim {
namespace {

constexpr double kMinLimitMs = 60'000;
constexpr double kToldMs = 2, kToldAgainMs = 4000;  // after a worker's end its agent says so
constexpr uint64_t kMaxEvents = 5'000'000;          // a node sends without end

std::string text_of(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& r : ranges) text += " " + std::to_string(r.epoch) + ":" + std::to_string(r.begin) + "+" + std::to_string(r.count);
  return text;
}

// The fields of a message that help to follow a trace.
std::string shown(std::span<const std::byte> frame) {
  FrameHeader h;
  read_header(frame, &h);
  const auto payload = frame.subspan(kHeaderBytes);
  Lease lease;
  Ready ready;
  Begin begin;
  CatchUp heal;
  StartEpoch go;
  Acknowledge formed;
  if (h.type == MessageType::lease && decode(payload, &lease)) return (lease.last ? "last" : "") + text_of(lease.ranges);
  if (h.type == MessageType::ready && decode(payload, &ready))
    return "base " + std::to_string(ready.base) + (ready.finite ? "" : " NOT FINITE") + text_of(ready.ranges);
  if (h.type == MessageType::catch_up && decode(payload, &heal))
    return "to round " + std::to_string(heal.round) + " from " + std::to_string(heal.donor) + (heal.keep_local ? " keep" : "");
  if (h.type == MessageType::start_epoch && decode(payload, &go))
    return "base " + std::to_string(go.base) + " at " + std::to_string(go.epoch) + ":" + std::to_string(go.position) + " left" +
           text_of(go.leftovers);
  if (h.type == MessageType::acknowledge && decode(payload, &formed))
    return "holds " + std::to_string(formed.round) + " pending" + text_of(formed.pending) + " on " + std::to_string(formed.base);
  if (h.type == MessageType::begin && decode(payload, &begin)) {
    std::string text = (begin.evaluate ? "evaluate " : "") + std::string(begin.last ? "last" : "");
    for (const Share& share : begin.shares) text += " " + std::to_string(share.id) + "(" + text_of(share.ranges) + ")";
    return text;
  }
  return "";
}

}  // namespace

World::World(const Scenario& scenario, const SimulateOptions& options)
    : scenario_(scenario), options_(options), rng_(mix(scenario.seed, 0x776f726c)), network_(scenario.seed) {
  network_.set_quality(scenario_.network);
  network_.set_queue_bytes(scenario_.queue_bytes);
  for (const Fault& fault : scenario_.faults)
    if (fault.kind == Fault::Kind::poison) {
      poison_ = {0, static_cast<int64_t>(fault.how * static_cast<double>(scenario_.examples - 1)), 1};
      reached("poison");
    }
  if (scenario_.partitions > 0) partitioned_ = std::make_unique<PartitionedData>(scenario_.examples, scenario_.partitions);
  coordinator_process_ = network_.add_process(kCoordinatorHost, "coordinator:1");
  const auto skew = [&](int process) {
    if (scenario_.skewed_clocks) network_.set_clock(process, rng_.next() >> 20, 1 + rng_.between(-2e-4, 2e-4));
  };
  skew(coordinator_process_);
  start_coordinator();
  for (int i = 0; i < scenario_.workers + served(); ++i) {
    const int who = add_worker(false, served() && i == scenario_.workers);
    skew(workers_[static_cast<size_t>(who)]->process);
    network_.at(in(rng_.between(0, 300)), [this, who] { start_worker(who); });
  }
  plan_faults();
  if (options_.trace || applies_wrongly())
    network_.watch = [this](int from, int to, std::span<const std::byte> frame) {
      if (to == coordinator_process_) hear(from, frame);
      FrameHeader h;
      if (!options_.trace || !read_header(frame, &h) || h.type == MessageType::beat || h.type == MessageType::chunk) return;
      say("  " + name_of(from) + " -> " + name_of(to) + " " + to_string(h.type) + " generation " + std::to_string(h.generation) +
          " round " + std::to_string(h.round) + (h.length < 200 ? " " + shown(frame) : ""));
    };
}

std::string World::name_of(int process) const {
  for (const auto& node : workers_)
    if (node->process == process) return node->name;
  return process == coordinator_process_ ? "coordinator" : "another process";
}

World::~World() = default;

Outcome simulate(const Scenario& scenario, const SimulateOptions& options) { return World(scenario, options).run(); }

// Safety is checked on the way; liveness at the end: once the faults are over, the run ends within a bounded time.
Outcome World::run() {
  const double one_worker_ms = scenario_.example_ms * static_cast<double>(scenario_.planned);
  // An exchange takes at most two hops per worker, one after the other; when one of them is lost, all wait for it to be sent again.
  const LinkQuality& q = scenario_.network;
  const double hops = 2.0 * std::max<double>(scenario_.workers, static_cast<double>(scenario_.faults.size()));
  const double hop_ms = q.latency_ms + q.jitter_ms + 400 * std::min(1.0, q.loss * hops);
  const double rounds = static_cast<double>(scenario_.planned) / static_cast<double>(std::max(scenario_.batch, scenario_.global_batch));
  const double limit_ms = scenario_.quiet_ms() + kMinLimitMs + 8 * one_worker_ms + rounds * hops * hop_ms;
  const uint64_t start = network_.now_ns(), limit = start + ns(limit_ms);
  while (outcome_.failure.empty() && !over()) {
    if (network_.events() > kMaxEvents) fail("too many events: " + picture());
    else if (!network_.step()) fail("nothing happens any more: " + picture());
    else if (network_.now_ns() - looked_ns_ > ns(200)) check_silence();
    end_launcher();
    if (outcome_.failure.empty() && network_.now_ns() > limit)
      fail("not finished " + std::to_string(static_cast<int64_t>(limit_ms - scenario_.quiet_ms())) +
           " ms after the last fault: " + picture());
  }
  if (outcome_.failure.empty()) check_all_have_ended();
  // Connections that are closing get their time to close.
  const uint64_t drained = network_.now_ns() + ns(kEndMs + 2000);
  while (outcome_.failure.empty() && network_.now_ns() < drained && network_.step()) {}
  if (outcome_.failure.empty()) check_end();
  outcome_.trace_hash = network_.trace_hash();
  outcome_.events = network_.events();
  outcome_.virtual_ns = network_.now_ns() - start;
  outcome_.ended_ms = stopped_ns_ > start ? static_cast<double>(stopped_ns_ - start) * 1e-6 : 0;
  const Network::Reached& r = network_.reached();
  const auto count = [&](const char* site, uint64_t times) {
    if (times > 0) outcome_.sites[site] += static_cast<int64_t>(times);
  };
  count("frames_resent", r.lost_frames), count("frames_duplicated", r.duplicates), count("connections_reset", r.resets);
  count("connections_timed_out", r.timeouts), count("connections_refused", r.refused), count("queues_full", r.full_queues);
  count("connections_half_open", r.half_open);
  count("inner_exchanges", static_cast<uint64_t>(inner_.exchanges()));
  count("ledger_torn", static_cast<uint64_t>(disk_.torn())), count("ledger_refused", static_cast<uint64_t>(disk_.refused()));
  return outcome_;
}

// The coordinator has stopped the run, and every worker that could hear it has ended.
bool World::over() const {
  if (!stopped_) return false;
  if (network_.now_ns() > stopped_ns_ + ns(20'000)) return true;
  for (const auto& node : workers_)
    if (node->worker) return false;
  return true;
}

// ---- processes ----

void World::start_coordinator() {
  if (coordinator_ || stopped_ || !outcome_.failure.empty()) return;
  Json job = Json::object();
  job.set("averaging", scenario_.averaging);
  if (scenario_.repeats) job.set("optimizer", "lbfgs");
  CoordinatorOptions o;
  o.job_id = kJob;
  o.job = job.dump();
  o.policy = read_policy(&scenario_.averaging, "scenario");
  o.examples = scenario_.examples;
  o.planned = scenario_.planned;
  o.batch = scenario_.batch;
  o.global_batch = scenario_.global_batch;
  o.shards = scenario_.shards;
  o.streams = scenario_.streams;
  o.steerable = scenario_.steered();
  o.fingerprint = 1;
  if (partitioned_) o.sources = partitioned_->manifest(), o.partitions = partitioned_->of_job();
  o.min_workers = scenario_.min_workers;
  o.takes_over = coordinator_starts_ > 0;
  o.resume_round = checkpoint_.round;
  o.resume_image = checkpoint_.image;
  ++coordinator_starts_;
  told_round_ = -1;
  told_generation_ = 0;
  finished_ = at_border_ = false;
  result_request_ = 0;
  const int p = coordinator_process_;
  coordinator_ = std::make_unique<Coordinator>(std::move(o), network_.clock(p), network_.rng(p), network_.transport(p), disk_, *this);
  network_.boot(p, coordinator_.get());
  coordinator_->start();
  coordinator_started_ns_ = network_.now_ns();
  say("coordinator started");
}

void World::end_coordinator(bool power) {
  network_.kill(coordinator_process_, power);
  coordinator_.reset();
}

bool World::served() const { return scenario_.served(); }

int World::add_worker(bool wrong_data, bool server) {
  const int who = static_cast<int>(workers_.size());
  auto node = std::make_unique<WorkerNode>(*this, who);
  node->host = 1 + who / scenario_.workers_per_host;
  node->name = "host" + std::to_string(node->host) + "/" + std::to_string(who);
  node->wrong_data = wrong_data;
  node->server = server;
  node->process = network_.add_process(node->host, "worker" + std::to_string(who) + ":1");
  for (int each = 0; each < scenario_.partitions && !server; ++each)  // the first holders, and one more for some
    if (who < scenario_.workers ? each % scenario_.workers == who : each == who % scenario_.partitions) node->held.push_back(each);
  workers_.push_back(std::move(node));
  return who;
}

void World::start_worker(int who) {
  WorkerNode& node = *workers_[static_cast<size_t>(who)];
  if (node.worker || !node.wanted || node.finished || stopped_ || !outcome_.failure.empty()) return;
  ++node.starts, ++node.life;
  node.joined = false;
  const double nan = node.faults.nan, slow = node.faults.slow, outlying = node.faults.outlying;
  node.faults = {.slow = slow, .outlying = outlying, .nan = nan};
  FakeReplica::Options r;
  r.examples = scenario_.examples;
  r.fingerprint = node.wrong_data ? 2 : 1;
  r.example_ms = scenario_.example_ms;
  r.apply_ms = scenario_.apply_ms;
  r.buckets = scenario_.buckets;
  r.poison = poison_;
  r.steered = scenario_.steered();
  r.learns = scenario_.learns;
  WorkerOptions o;
  o.coordinators = {"coordinator:1"};
  o.name = node.name;
  o.host = "host" + std::to_string(node.host);
  o.address = "worker" + std::to_string(who) + ":1";
  o.server = node.server;
  o.pid = node.pid();
  if (partitioned_) {
    hold_partitions(node, &o);
    r.rows = [&node](const Range& range) { return node.data->has(range); };
  }
  node.replica = std::make_unique<FakeReplica>(r, network_, node.process, node.faults, [this, who](const std::string& what) {
    fail(workers_[static_cast<size_t>(who)]->name + ": " + what);
  });
  const int p = node.process;
  node.worker = std::make_unique<Worker>(std::move(o), network_.clock(p), network_.rng(p), network_.transport(p), *node.replica, node);
  node.replica->set_events(node.worker.get());
  node.replica->set_watch([this, &node](int64_t round) {
    ++applied_[{node.worker->generation(), round}];
    if (applies_wrongly() && is_wrong(node.replica->contents())) results_.applied_wrongly(round, node.replica->contents().hash());
    check_options(node, round);
  });
  node.replica->set_inner_watch([this, &node, who](const InnerApplyOrder& order, const auto& staged, const auto& sum) {
    inner_.note(node.worker->generation(), order.round, order.index, who, staged, sum);
  });
  network_.boot(p, node.worker.get());
  node.worker->start();
  if (node.server) server_ns_ = network_.now_ns();
  say(node.name + " started");
}

// It serves them at an address that was not used before, as a new process does.
void World::hold_partitions(WorkerNode& node, WorkerOptions* options) {
  options->serves = "data" + std::to_string(node.number) + ":" + std::to_string(node.starts);
  node.data_process = network_.add_process(node.host, options->serves);
  node.data = std::make_unique<PartitionNode>(*partitioned_, network_, node.data_process, node.held, node.computed_anew,
                                              [this, &node](const std::string& what) { fail(node.name + ": " + what); });
  options->held = node.data->held();
  if (options->held.empty()) options->serves.clear();
}

// Its agent saw the process end and says so as soon as it can; and again later, when the worker may have a new process.
void World::tell_death(const WorkerNode& node) {
  if (!scenario_.agents) return;
  for (const double ms : {kToldMs, kToldAgainMs})
    network_.at(in(ms), [this, host = node.host, name = node.name, pid = node.pid()] {
      if (!coordinator_ || network_.blocked(host, kCoordinatorHost)) return;
      at_coordinator(scenario_.network.latency_ms, [name, pid](Coordinator& c) { c.note_death(name, pid); });
    });
}

void World::end_worker(int who, bool power, double back_after_ms) {
  WorkerNode& node = *workers_[static_cast<size_t>(who)];
  if (!node.worker) return;
  if (!power) tell_death(node);
  network_.kill(node.process, power);
  if (node.data) network_.kill(node.data_process, power);
  node.worker.reset();
  node.data.reset();
  node.replica.reset();
  const uint64_t life = ++node.life;
  if (back_after_ms < 0) return;
  network_.at(in(back_after_ms), [this, who, life] {
    if (workers_[static_cast<size_t>(who)]->life == life) start_worker(who);
  });
}

// The process ended by itself; it is taken away once its callback has returned.
void World::worker_ended(int who, bool restart, double after_ms) {
  const uint64_t life = workers_[static_cast<size_t>(who)]->life;
  network_.at(network_.now_ns(), [this, who, restart, after_ms, life] {
    if (workers_[static_cast<size_t>(who)]->life == life) end_worker(who, false, restart ? after_ms : -1);
  });
}

void World::WorkerNode::on_event(const Json& event) {
  world.reached("worker:" + event.find("event")->as_string());
  if (world.options_.trace) world.say(name + " says " + event.dump());
}

void World::WorkerNode::on_stopped(const std::string& why, bool over) {
  world.say(name + " stopped: " + why);
  finished = over;
  if (over) {
    last = replica->contents(), last_round = replica->round();
    last_generation = worker->generation();
  }
  if (over && world.network_.open_connections(process) != 0) world.fail(name + " has stopped and left a connection open");
  if (over && world.network_.running_timers(process) != 0) world.fail(name + " has stopped and left a timer running");
  world.worker_ended(number, false, 0);
}

void World::WorkerNode::on_failed(const Error& error) {
  world.say(name + " failed: " + error.what());
  world.reached("worker_failed");
  const bool kicked = std::string_view(error.what()).find("on request") != std::string_view::npos;
  const bool wrong = wrong_data || std::exchange(computed_anew, false);
  if (wrong != (error.kind() == ErrorKind::data) && !kicked && !world.gave_up_) world.fail(name + " failed: " + error.what());
  world.worker_ended(number, !wrong_data, world.rng_.between(100, 1000));
}

void World::say(const std::string& text) const {
  if (options_.trace) std::printf("%10.3f ms  %s\n", static_cast<double>(network_.now_ns()) * 1e-6 - 1000, text.c_str());
}

}  // namespace perigee::sim
