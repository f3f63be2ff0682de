// What befalls the simulated cluster.
#include <algorithm>
#include <cassert>

#include "cluster/protocol/message.h"
#include "cluster/simulator/world.h"
#include "cluster/simulator/world_impl.h"

namespace perigee::sim {
namespace {

constexpr double kShowsMs = 600;     // after a process is back, or has left: until everybody knows
constexpr double kRestartMs = 1500;  // until a worker whose trainer failed takes part again
constexpr double kSettleMs = 8000;   // from the end of a disturbance until everybody is connected again

bool keeps_from_being_heard(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::worker_pause:
    case Fault::Kind::coordinator_pause:
    case Fault::Kind::partition:
    case Fault::Kind::partition_outgoing:
    case Fault::Kind::partition_incoming:
    case Fault::Kind::partition_pair:
    case Fault::Kind::partition_half:
    case Fault::Kind::flapping:
    case Fault::Kind::slow_link:
    case Fault::Kind::loss:
    case Fault::Kind::duplicates: return true;
    default: return false;
  }
}

}  // namespace

// Somebody who reached the ports and speaks nonsense in well-formed frames, or not at all.
class World::Intruder final : public TransportEvents {
 public:
  explicit Intruder(World& world) : world_(world) {}
  void on_connected(PeerId peer, const std::string&) override {
    SeededRng& rng = world_.rng_;
    for (int64_t i = rng.integer(0, 5); i > 0; --i) {
      std::vector<std::byte> payload(static_cast<size_t>(rng.integer(0, 300)));
      for (std::byte& byte : payload) byte = static_cast<std::byte>(rng.chance(0.5) ? 0 : rng.next());
      auto type = static_cast<MessageType>(rng.chance(0.5) ? rng.integer(1, 21) : rng.integer(0, 200));
      if (type == MessageType::join || type == MessageType::link) type = MessageType::formed;
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
  if (fault.how < 0.3) return operator_->kick_somebody();
  if (fault.how < 0.5) return tell("every", rng_.integer(1, 8));
  if (fault.how < 0.7) return tell("lr", rng_.between(1e-4, 1));
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

void World::strike(const Fault& fault) {
  using Kind = Fault::Kind;
  const int who = struck_by(fault), other = fault.other % static_cast<int>(workers_.size());
  WorkerNode& node = *workers_[static_cast<size_t>(who)];
  const int host = node.host, other_host = workers_[static_cast<size_t>(other)]->host;
  const auto after = [&](std::function<void()> what) { network_.at(in(fault.for_ms), std::move(what)); };
  const auto take_hold = [&] {
    uint64_t& shows = struck_[node.name];
    const double restart_ms = fault.kind == Kind::trainer_fails ? kRestartMs : 0;  // it ends, and comes back by itself
    shows = std::max(shows, in(fault.for_ms + kShowsMs + restart_ms));
    if (keeps_from_being_heard(fault.kind)) disturbed_until_ns_ = std::max(disturbed_until_ns_, in(fault.for_ms + kSettleMs));
    reached(to_string(fault.kind));
    say(std::string("FAULT ") + to_string(fault.kind) + " " + node.name + " for " + std::to_string(static_cast<int64_t>(fault.for_ms)) +
        " ms");
  };
  switch (fault.kind) {
    case Kind::worker_kill:
      if (!node.worker) return;
      take_hold();
      return end_worker(who, false, fault.for_ms);
    case Kind::worker_power:
      take_hold();
      for (const auto& each : workers_)
        if (each->host == host) struck_[each->name] = in(fault.for_ms + kSettleMs), end_worker(each->number, true, fault.for_ms);
      return;
    case Kind::coordinator_kill:
      if (!coordinator_) return;
      take_hold();
      end_coordinator(false);
      return after([this] { start_coordinator(); });
    case Kind::coordinator_power:
      if (!coordinator_) return;
      take_hold();
      end_coordinator(true);
      disk_.lose_power(rng_);
      return after([this] { start_coordinator(); });
    case Kind::power_cut:
      take_hold();
      for (const auto& each : workers_) end_worker(each->number, true, fault.for_ms + rng_.between(0, 1000));
      if (coordinator_) {
        end_coordinator(true);
        disk_.lose_power(rng_);
        after([this] { start_coordinator(); });
      }
      return;
    case Kind::worker_pause: {
      if (!node.worker) return;
      take_hold();
      const int process = node.process;
      network_.pause(process);
      return after([this, process] { network_.resume(process); });
    }
    case Kind::coordinator_pause:
      if (!coordinator_) return;
      take_hold();
      network_.pause(coordinator_process_);
      return after([this] { network_.resume(coordinator_process_); });
    case Kind::partition: take_hold(); return partition_from_all(who, true, true, fault.for_ms);
    case Kind::partition_outgoing: take_hold(); return partition_from_all(who, true, false, fault.for_ms);
    case Kind::partition_incoming: take_hold(); return partition_from_all(who, false, true, fault.for_ms);
    case Kind::partition_pair:
      if (host == other_host) return;
      take_hold();
      return partition(host, other_host, true, rng_.chance(0.7), fault.for_ms);
    case Kind::partition_half: {
      take_hold();
      std::set<int> one, rest = {kCoordinatorHost};
      for (const auto& each : workers_) (rng_.chance(0.5) ? one : rest).insert(each->host);
      for (const int a : one)
        for (const int b : rest)
          if (!one.contains(b)) partition(a, b, true, true, fault.for_ms);
      return;
    }
    case Kind::flapping:
      take_hold();
      for (double ms = 0; ms + fault.how < fault.for_ms; ms += 2 * fault.how)
        network_.at(in(ms), [this, who, fault] { partition_from_all(who, true, true, fault.how); });
      return;
    case Kind::reset:
      take_hold();
      for (const auto& each : workers_) network_.reset_connections(host, each->host);
      return network_.reset_connections(host, kCoordinatorHost);
    case Kind::reset_pair: take_hold(); return network_.reset_connections(host, other_host);
    case Kind::slow_link:
      take_hold();
      network_.set_host_rate(host, fault.how);
      return after([this, host] { network_.set_host_rate(host, 0); });
    case Kind::loss:
    case Kind::duplicates: {
      take_hold();
      LinkQuality bad = scenario_.network;
      (fault.kind == Kind::loss ? bad.loss : bad.duplicates) = fault.how;
      if (served()) bad.repeated = 3;  // a push has several frames
      network_.set_quality(bad);
      return after([this] { network_.set_quality(scenario_.network); });
    }
    case Kind::disk_full:
      take_hold();
      disk_.full = true;
      return after([this] { disk_.full = false; });
    case Kind::sync_fails:
      take_hold();
      disk_.failing = true;
      return after([this] { disk_.failing = false; });
    case Kind::not_finite:
      take_hold();
      node.faults.nan = fault.how;
      return after([this, who] { workers_[static_cast<size_t>(who)]->faults.nan = 0; });
    case Kind::outlying:
      take_hold();
      node.faults.outlying = fault.how;
      return after([this, who] { workers_[static_cast<size_t>(who)]->faults.outlying = 0; });
    case Kind::poison: return;  // from the start
    case Kind::stuck:
      take_hold();
      node.faults.stuck = true;
      return;
    case Kind::slow:
      take_hold();
      node.faults.slow = fault.how;
      return after([this, who] { workers_[static_cast<size_t>(who)]->faults.slow = 1; });
    case Kind::trainer_fails:
      take_hold();
      node.faults.fails = true;
      return;
    case Kind::wrong_apply:
      take_hold();
      node.faults.wrong_apply = true;
      return;
    case Kind::bad_payload:
      take_hold();
      node.faults.bad_payloads = 1;
      return;
    case Kind::leave: {
      int wanted = 0;
      for (const auto& each : workers_) wanted += each->wanted && !each->wrong_data && !each->server;
      if (!node.worker || node.wrong_data || node.server || network_.paused(node.process) || wanted <= std::max(1, scenario_.min_workers))
        return;
      take_hold();
      node.wanted = false;
      return network_.post(node.process, 0, [this, who] { workers_[static_cast<size_t>(who)]->worker->leave("asked to"); });
    }
    case Kind::join:
    case Kind::wrong_data:
      if (workers_.size() >= 24) return;
      take_hold();
      return start_worker(add_worker(fault.kind == Kind::wrong_data));
    case Kind::intruder: take_hold(); return start_intruder(fault.for_ms);
    case Kind::steer: return steer(fault);
    case Kind::count: break;
  }
  assert(false);
}

}  // namespace perigee::sim
