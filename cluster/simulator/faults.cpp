// The faults of the simulated cluster.
#include <algorithm>
#include <cassert>

#include "cluster/protocol/message.h"
#include "cluster/simulator/world.h"
#include "cluster/simulator/world_impl.h"

namespace perigee::sim {
namespace {

constexpr double kShowsMs = 600;     // after a process is back, or has left: until all know
constexpr double kRestartMs = 1500;  // until a worker whose trainer failed takes part again
constexpr double kNoticeMs = 2000;   // until a link is given up that carries nothing
constexpr double kSettleMs = 8000;   // from the end of a disturbance until all are connected again

bool keeps_from_being_heard(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::worker_pause:
    case Fault::Kind::coordinator_pause:
    case Fault::Kind::partition:
    case Fault::Kind::partition_outgoing:
    case Fault::Kind::partition_incoming:
    case Fault::Kind::partition_pair:
    case Fault::Kind::partition_half:
    case Fault::Kind::half_open:
    case Fault::Kind::swallow:
    case Fault::Kind::flapping:
    case Fault::Kind::slow_link:
    case Fault::Kind::loss:
    case Fault::Kind::duplicates: return true;
    default: return false;
  }
}

// Likewise, and others than the worker that the fault names, too.
bool keeps_all_from_being_heard(Fault::Kind kind) {
  return kind == Fault::Kind::coordinator_pause || kind == Fault::Kind::partition_half || kind == Fault::Kind::loss ||
         kind == Fault::Kind::duplicates;
}

}  // namespace

// An intruder that reached the ports and sends nonsense in well-formed frames, or nothing.
class World::Intruder final : public TransportEvents {
 public:
  explicit Intruder(World& world) : world_(world) {}
  void on_connected(PeerId peer, const std::string&) override {
    SeededRng& rng = world_.rng_;
    for (int64_t i = rng.integer(0, 5); i > 0; --i) {
      std::vector<std::byte> payload(static_cast<size_t>(rng.integer(0, 300)));
      for (std::byte& byte : payload) byte = static_cast<std::byte>(rng.chance(0.5) ? 0 : rng.next());
      auto type = static_cast<MessageType>(rng.chance(0.5) ? rng.integer(1, 21) : rng.integer(0, 200));
      if (type == MessageType::join || type == MessageType::link) type = MessageType::acknowledge;
      std::vector<std::byte> frame(kHeaderBytes + payload.size());
      write_header({.type = type,
                    .job = rng.chance(0.8) ? kJob : rng.next(),
                    .generation = static_cast<uint64_t>(rng.integer(0, 20)),
                    .round = rng.integer(-1, 50),
                    .length = static_cast<uint32_t>(payload.size())},
                   std::span(frame).first<kHeaderBytes>());
      std::copy(payload.begin(), payload.end(), frame.begin() + kHeaderBytes);
      world_.network_.transport(world_.intruder_process_).send(peer, frame);
    }
  }
  void on_frame(PeerId, std::span<const std::byte>) override {}
  void on_lost(PeerId, PeerLoss) override {}
  void on_timer(uint64_t) override {}
  void on_writable(PeerId) override {}

 private:
  World& world_;
};

void World::start_intruder(double for_ms) {
  if (!intruder_) {
    intruder_ = std::make_unique<Intruder>(*this);
    intruder_process_ = network_.add_process(1000, "intruder:1");
    network_.boot(intruder_process_, intruder_.get());
  }
  for (int i = 0; i < 8; ++i)
    network_.at(in(rng_.between(0, for_ms)), [this] {
      const auto who = static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(workers_.size()) - 1));
      const std::string address = rng_.chance(0.5) ? "coordinator:1" : "worker" + std::to_string(who) + ":1";
      network_.transport(intruder_process_).connect(address, network_.now_ns() + ns(5000));
    });
}

void World::steer(const Fault& fault) {
  if (!operator_)
    operator_ = std::make_unique<Operator>(network_, rng_, [this](const std::string& name) {
      struck_[name] = in(kRestartMs + kShowsMs + 1000);
      reached("kick");
    });
  const auto tell = [&](const char* key, Json value) {
    reached(std::string("steer_") + key);
    Json command = Json::object();
    command.set(key, std::move(value));
    operator_->command(std::move(command));
  };
  say("STEER " + std::to_string(fault.how) + " for " + std::to_string(static_cast<int64_t>(fault.for_ms)) + " ms");
  if (fault.how < 0.3) return operator_->kick_one();
  if (fault.how < 0.5) return tell("every", rng_.integer(1, 8));
  if (fault.how < 0.7) return tell("set", Json(Json::Object{{"option", "optimizer.lr"}, {"value", rng_.between(1e-4, 1)}}));
  tell("pause", true);
  network_.at(in(fault.for_ms), [this] {
    if (!stopped_) operator_->command(Json(Json::Object{{"pause", false}}));
  });
}

void World::plan_faults() {
  for (const Fault& fault : scenario_.faults)
    network_.at(in(fault.at_ms), [this, fault] {
      if (!stopped_) strike(fault);
    });
}

void World::partition(int host, int other_host, bool out, bool in_too, double for_ms) {
  if (host == other_host) return;
  if (out) network_.block(host, other_host);
  if (in_too) network_.block(other_host, host);
  network_.at(in(for_ms), [this, host, other_host, out, in_too] {
    if (out) network_.unblock(host, other_host);
    if (in_too) network_.unblock(other_host, host);
  });
}

void World::partition_from_all(int who, bool out, bool in_too, double for_ms) {
  const int host = workers_[static_cast<size_t>(who)]->host;
  int last = kCoordinatorHost;
  for (const auto& node : workers_) last = std::max(last, node->host);
  for (int other = kCoordinatorHost; other <= last; ++other) partition(host, other, out, in_too, for_ms);
}

// With a server it is that one's turn now and then; not where a majority must tell a wrong result from a right one.
int World::struck_by(const Fault& fault) const {
  const bool servers_turn = served() && fault.kind != Fault::Kind::wrong_apply && mix(scenario_.seed, ns(fault.at_ms)) % 4 == 0;
  return servers_turn ? scenario_.workers : fault.who % static_cast<int>(workers_.size());
}

// The state that a fault needs to strike.
struct World::Struck {
  World& world;
  const Fault& fault;
  WorkerNode& node;
  int who, other_host;
  void after(std::function<void()> what) const { world.network_.at(world.in(fault.for_ms), std::move(what)); }
};

void World::take_hold(const Struck& s) {
  const Fault& fault = s.fault;
  uint64_t& shows = struck_[s.node.name];
  const double restart_ms = fault.kind == Fault::Kind::trainer_fails ? kRestartMs : 0;  // it ends, and comes back by itself
  shows = std::max(shows, in(fault.for_ms + kShowsMs + restart_ms));
  if (fault.kind == Fault::Kind::reset || fault.kind == Fault::Kind::reset_pair)  // of hosts, not of workers
    for (const auto& each : workers_)
      if (each->host == s.node.host || each->host == s.other_host) struck_[each->name] = std::max(struck_[each->name], in(kShowsMs));
  if (keeps_from_being_heard(fault.kind)) {
    cut_off_until_ns_ = std::max(cut_off_until_ns_, in(fault.for_ms));
    disturbed_until_ns_ = std::max(disturbed_until_ns_, in(fault.for_ms + kSettleMs));
    for (const auto& each : workers_)
      if (each->host == s.node.host || keeps_all_from_being_heard(fault.kind))
        each->cut_off_until_ns = std::max(each->cut_off_until_ns, in(fault.for_ms));
  }
  reached(to_string(fault.kind));
  say(std::string("FAULT ") + to_string(fault.kind) + " " + s.node.name + " for " + std::to_string(static_cast<int64_t>(fault.for_ms)) +
      " ms");
}

bool World::may_leave(const WorkerNode& node) const {
  int wanted = 0;
  for (const auto& each : workers_) wanted += each->wanted && !each->wrong_data && !each->server;
  return node.worker && !node.wrong_data && !node.server && !network_.paused(node.process) && wanted > std::max(1, scenario_.min_workers);
}

void World::kill_worker(const Struck& s) { end_worker(s.who, false, s.fault.for_ms); }

void World::power_off_host(const Struck& s) {
  for (const auto& each : workers_)
    if (each->host == s.node.host) struck_[each->name] = in(s.fault.for_ms + kSettleMs), end_worker(each->number, true, s.fault.for_ms);
}

void World::kill_coordinator(const Struck& s) {
  end_coordinator(false);
  s.after([this] { start_coordinator(); });
}

void World::power_off_coordinator(const Struck& s) {
  end_coordinator(true);
  disk_.lose_power(rng_);
  s.after([this] { start_coordinator(); });
}

void World::cut_power(const Struck& s) {
  for (const auto& each : workers_) end_worker(each->number, true, s.fault.for_ms + rng_.between(0, 1000));
  if (coordinator_) power_off_coordinator(s);
}

void World::pause_process(int process, const Struck& s) {
  network_.pause(process);
  const int data = s.node.process == process ? s.node.data_process : -1;  // one process, in truth
  if (data >= 0) network_.pause(data);
  if (s.node.process == process) s.node.paused_ns = network_.now_ns();
  s.after([this, process, data, who = s.who] {
    network_.resume(process);
    if (WorkerNode& node = *workers_[static_cast<size_t>(who)]; node.process == process) node.resumed_ns = network_.now_ns();
    if (data >= 0) network_.resume(data);
    if (process == coordinator_process_) stood_still_ns_ = network_.now_ns();
  });
}

void World::partition_pair(const Struck& s) {
  const bool both_ways = rng_.chance(0.7);
  if (both_ways && s.fault.for_ms > kNoticeMs) expect_given_up(network_.connections_between(s.node.host, s.other_host), in(s.fault.for_ms));
  partition(s.node.host, s.other_host, true, both_ways, s.fault.for_ms);
}

// Nothing is sent on these any more until then: no worker believes in one for longer than two seconds after the last frame that was still on
// the way. Who is stopped meanwhile may.
void World::expect_given_up(const std::vector<uint64_t>& connections, uint64_t until_ns) {
  const auto stops = [](const Fault& f) { return f.kind == Fault::Kind::worker_pause; };
  if (std::any_of(scenario_.faults.begin(), scenario_.faults.end(), stops)) return;
  const uint64_t notice = ns(kNoticeMs + scenario_.network.latency_ms + scenario_.network.jitter_ms);
  network_.at(network_.now_ns() + notice, [this, connections, notice, until_ns] {
    for (const uint64_t number : connections) check_given_up(number, notice, until_ns);
  });
}

void World::check_given_up(uint64_t connection, uint64_t notice_ns, uint64_t until_ns) {
  const auto [process, heard_ns] = network_.believer(connection);
  const auto of_run = [process](const auto& node) { return node->process == process; };  // connections for examples have more patience
  if (std::ranges::none_of(workers_, of_run) || network_.now_ns() >= until_ns) return;
  if (const uint64_t due_ns = heard_ns + notice_ns; network_.now_ns() < due_ns)
    return network_.at(due_ns, [this, connection, notice_ns, until_ns] { check_given_up(connection, notice_ns, until_ns); });
  fail(name_of(process) + " believes in a link that has carried nothing for two seconds");
}

void World::partition_half(const Struck& s) {
  std::set<int> one, rest = {kCoordinatorHost};
  for (const auto& each : workers_) (rng_.chance(0.5) ? one : rest).insert(each->host);
  for (const int a : one)
    for (const int b : rest)
      if (!one.contains(b)) partition(a, b, true, true, s.fault.for_ms);
}

void World::swallow(const Struck& s) {
  network_.swallow(s.node.host, kCoordinatorHost, in(s.fault.for_ms));
  for (const auto& each : workers_) network_.swallow(s.node.host, each->host, in(s.fault.for_ms));
}

void World::compute_anew(const Struck& s) {
  s.node.computed_anew = true;
  end_worker(s.who, false, s.fault.for_ms);
}

void World::flap(const Struck& s) {
  for (double ms = 0; ms + s.fault.how < s.fault.for_ms; ms += 2 * s.fault.how)
    network_.at(in(ms), [this, who = s.who, for_ms = s.fault.how] { partition_from_all(who, true, true, for_ms); });
}

void World::reset_all(const Struck& s) {
  for (const auto& each : workers_) network_.reset_connections(s.node.host, each->host);
  network_.reset_connections(s.node.host, kCoordinatorHost);
}

void World::slow_link(const Struck& s) {
  const int host = s.node.host;
  network_.set_host_rate(host, s.fault.how);
  s.after([this, host] { network_.set_host_rate(host, 0); });
}

void World::worsen_network(const Struck& s) {
  LinkQuality bad = scenario_.network;
  (s.fault.kind == Fault::Kind::loss ? bad.loss : bad.duplicates) = s.fault.how;
  if (served()) bad.repeated = 3;  // a push has several frames
  network_.set_quality(bad);
  s.after([this] { network_.set_quality(scenario_.network); });
}

// A fault of the replica, from now on; until it is over when it has a time.
template <class T>
void World::spoil(const Struck& s, T ReplicaFaults::*fault, T value, std::optional<T> later) {
  s.node.faults.*fault = value;
  if (later) s.after([this, who = s.who, fault, later] { workers_[static_cast<size_t>(who)]->faults.*fault = *later; });
}

void World::leave(const Struck& s) {
  s.node.wanted = false;
  network_.post(s.node.process, 0, [this, who = s.who] { workers_[static_cast<size_t>(who)]->worker->leave("asked to"); });
}

const std::map<Fault::Kind, World::Strike>& World::strikes() {
  using Kind = Fault::Kind;
  using S = const Struck&;
  const auto always = [](S) { return true; };
  const auto has_worker = [](S s) { return s.node.worker != nullptr; };
  const auto has_coordinator = [](S s) { return s.world.coordinator_ != nullptr; };
  const auto apart = [](S s) { return s.node.host != s.other_host; };
  const auto has_room = [](S s) { return s.world.workers_.size() < 24; };
  const auto cut = [](bool out, bool in_too) { return [=](S s) { s.world.partition_from_all(s.who, out, in_too, s.fault.for_ms); }; };
  const auto on_disk = [](bool Disk::*fault) {
    return [=](S s) {
      s.world.disk_.*fault = true;
      s.after([&world = s.world, fault] { world.disk_.*fault = false; });
    };
  };
  static const std::map<Kind, Strike> all = {
      {Kind::worker_kill, {has_worker, [](S s) { s.world.kill_worker(s); }}},
      {Kind::worker_power, {always, [](S s) { s.world.power_off_host(s); }}},
      {Kind::coordinator_kill, {has_coordinator, [](S s) { s.world.kill_coordinator(s); }}},
      {Kind::coordinator_power, {has_coordinator, [](S s) { s.world.power_off_coordinator(s); }}},
      {Kind::power_cut, {always, [](S s) { s.world.cut_power(s); }}},
      {Kind::worker_pause, {has_worker, [](S s) { s.world.pause_process(s.node.process, s); }}},
      {Kind::coordinator_pause, {has_coordinator, [](S s) { s.world.pause_process(s.world.coordinator_process_, s); }}},
      {Kind::partition, {always, cut(true, true)}},
      {Kind::partition_outgoing, {always, cut(true, false)}},
      {Kind::partition_incoming, {always, cut(false, true)}},
      {Kind::partition_pair, {apart, [](S s) { s.world.partition_pair(s); }}},
      {Kind::half_open,
       {apart, [](S s) { s.world.expect_given_up(s.world.network_.mute_connections(s.node.host, s.other_host), UINT64_MAX); }}},
      {Kind::partition_half, {always, [](S s) { s.world.partition_half(s); }}},
      {Kind::other_rows, {[](S s) { return s.node.data != nullptr && !s.node.held.empty(); }, [](S s) { s.world.compute_anew(s); }}},
      {Kind::swallow, {always, [](S s) { s.world.swallow(s); }}},
      {Kind::flapping, {always, [](S s) { s.world.flap(s); }}},
      {Kind::reset, {always, [](S s) { s.world.reset_all(s); }}},
      {Kind::reset_pair, {always, [](S s) { s.world.network_.reset_connections(s.node.host, s.other_host); }}},
      {Kind::slow_link, {always, [](S s) { s.world.slow_link(s); }}},
      {Kind::loss, {always, [](S s) { s.world.worsen_network(s); }}},
      {Kind::duplicates, {always, [](S s) { s.world.worsen_network(s); }}},
      {Kind::disk_full, {always, on_disk(&Disk::full)}},
      {Kind::sync_fails, {always, on_disk(&Disk::failing)}},
      {Kind::not_finite, {always, [](S s) { s.world.spoil<double>(s, &ReplicaFaults::nan, s.fault.how, 0.0); }}},
      {Kind::outlying, {always, [](S s) { s.world.spoil<double>(s, &ReplicaFaults::outlying, s.fault.how, 0.0); }}},
      {Kind::stuck, {always, [](S s) { s.world.spoil(s, &ReplicaFaults::stuck, true); }}},
      {Kind::slow, {always, [](S s) { s.world.spoil<double>(s, &ReplicaFaults::slow, s.fault.how, 1.0); }}},
      {Kind::trainer_fails, {always, [](S s) { s.world.spoil(s, &ReplicaFaults::fails, true); }}},
      {Kind::wrong_apply, {always, [](S s) { s.world.spoil(s, &ReplicaFaults::wrong_apply, true); }}},
      {Kind::withholds, {always, [](S s) { s.world.spoil<bool>(s, &ReplicaFaults::withholds, true, false); }}},
      {Kind::bad_payload, {always, [](S s) { s.world.spoil(s, &ReplicaFaults::bad_payloads, 1); }}},
      {Kind::leave, {[](S s) { return s.world.may_leave(s.node); }, [](S s) { s.world.leave(s); }}},
      {Kind::join, {has_room, [](S s) { s.world.start_worker(s.world.add_worker(false)); }}},
      {Kind::wrong_data, {has_room, [](S s) { s.world.start_worker(s.world.add_worker(true)); }}},
      {Kind::intruder, {always, [](S s) { s.world.start_intruder(s.fault.for_ms); }}},
  };
  return all;
}

void World::strike(const Fault& fault) {
  if (fault.kind == Fault::Kind::poison) return;  // from the start
  if (fault.kind == Fault::Kind::steer) return steer(fault);
  const int who = struck_by(fault), other = fault.other % static_cast<int>(workers_.size());
  const Struck struck{*this, fault, *workers_[static_cast<size_t>(who)], who, workers_[static_cast<size_t>(other)]->host};
  const Strike& strike = strikes().at(fault.kind);
  if (!strike.may(struck)) return;
  take_hold(struck);
  strike.go(struck);
}

}  // namespace perigee::sim
