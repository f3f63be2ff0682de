#include "cluster/simulator/scenario.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "cluster/simulator/scenario_averaging.h"

namespace perigee::sim {
namespace {

constexpr int64_t kFirstPolicies = 8;     // those that came later have draws of their own, so that scenarios stay what they were
constexpr int64_t kSteeredPolicies = 20;  // likewise, where an operator steers

constexpr const char* kNames[] = {"worker_kill",
                                  "worker_power",
                                  "coordinator_kill",
                                  "coordinator_power",
                                  "power_cut",
                                  "worker_pause",
                                  "coordinator_pause",
                                  "partition",
                                  "partition_outgoing",
                                  "partition_incoming",
                                  "partition_pair",
                                  "partition_half",
                                  "flapping",
                                  "reset",
                                  "reset_pair",
                                  "slow_link",
                                  "loss",
                                  "duplicates",
                                  "disk_full",
                                  "sync_fails",
                                  "not_finite",
                                  "poison",
                                  "stuck",
                                  "slow",
                                  "trainer_fails",
                                  "wrong_apply",
                                  "leave",
                                  "join",
                                  "wrong_data",
                                  "intruder",
                                  "bad_payload",
                                  "outlying",
                                  "steer",
                                  "half_open",
                                  "withholds",
                                  "other_rows",
                                  "swallow"};
static_assert(std::size(kNames) == static_cast<size_t>(Fault::Kind::count));

Fault make_fault(Fault::Kind kind, double at_ms, int workers, SeededRng& rng) {
  Fault fault{.kind = kind,
              .at_ms = at_ms,
              .who = static_cast<int>(rng.integer(0, workers - 1)),
              .other = static_cast<int>(rng.integer(0, workers - 1))};
  if (fault.other == fault.who) fault.other = (fault.who + 1) % workers;
  fault.for_ms = std::exp(rng.between(std::log(20.0), std::log(6000.0)));
  switch (kind) {
    case Fault::Kind::worker_pause:
    case Fault::Kind::coordinator_pause: fault.for_ms = std::exp(rng.between(std::log(50.0), std::log(20000.0))); break;
    case Fault::Kind::slow_link: fault.how = std::exp(rng.between(std::log(2e4), std::log(1e7))); break;
    case Fault::Kind::loss: fault.how = rng.between(0.01, 0.2); break;
    case Fault::Kind::duplicates: fault.how = rng.between(0.01, 0.1); break;
    case Fault::Kind::outlying:
    case Fault::Kind::not_finite: fault.how = rng.between(0.2, 1); break;
    case Fault::Kind::slow: fault.how = rng.between(2, 8); break;
    case Fault::Kind::steer: fault.how = rng.uniform(); break;             // what is asked for
    case Fault::Kind::flapping: fault.how = rng.between(50, 1000); break;  // ms between changes
    case Fault::Kind::poison: fault.how = rng.uniform(); break;            // where in the data
    default: break;
  }
  return fault;
}

}  // namespace

const char* to_string(Fault::Kind kind) { return kNames[static_cast<size_t>(kind)]; }

double Scenario::quiet_ms() const {
  double end = 0;
  for (const Fault& fault : faults) end = std::max(end, fault.at_ms + fault.for_ms);
  return end;
}

bool Scenario::steered() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return f.kind == Fault::Kind::steer; });
}

bool Scenario::served() const {
  const Json* synchrony = averaging.is_object() ? averaging.find("synchrony") : nullptr;
  return synchrony && synchrony->as_string() == "server";
}

bool Scenario::only_servers_die() const {
  const auto of_server = [this](const Fault& f) { return f.kind == Fault::Kind::worker_kill && f.who == workers; };
  return served() && network.loss == 0 && !faults.empty() && std::all_of(faults.begin(), faults.end(), of_server);
}

bool Scenario::touches_only_its_target() const {
  const auto targeted = [](const Fault& f) {
    switch (f.kind) {
      case Fault::Kind::worker_kill:
      case Fault::Kind::worker_power:
      case Fault::Kind::trainer_fails:
      case Fault::Kind::wrong_data:
      case Fault::Kind::leave:
      case Fault::Kind::steer:
      case Fault::Kind::join: return true;
      default: return false;
    }
  };
  // Requests that wait for the next order show when a pause is over.
  const bool waits =
      steered() && std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return f.kind == Fault::Kind::trainer_fails; });
  return network.loss == 0 && !waits && std::all_of(faults.begin(), faults.end(), targeted);
}

namespace {

// Combinations that single faults at random moments seldom reach.
void make_special(Scenario& s, SeededRng& rng) {
  using Kind = Fault::Kind;
  const double work_ms = std::max(500.0, s.example_ms * static_cast<double>(s.planned) / s.workers * 1.5);
  s.faults.clear();
  switch (rng.integer(0, 3)) {
    case 0:  // rounds that are shorter than the way to the coordinator, results that take long to apply, an image of every other round
      s.network.latency_ms = rng.between(5, 40), s.network.jitter_ms = s.network.latency_ms, s.network.loss = 0;
      s.example_ms = rng.between(0.05, 0.5), s.apply_ms = rng.chance(0.5) ? 0.2 : rng.between(1, 60);
      s.workers = static_cast<int>(rng.integer(2, 5)), s.min_workers = 1;
      s.checkpoint_every = static_cast<int>(rng.integer(1, 2));
      for (int64_t i = rng.integer(0, 6); i > 0; --i)
        s.faults.push_back({.kind = rng.chance(0.8) ? Kind::worker_kill : Kind::join,
                            .at_ms = rng.between(350, 1200),
                            .for_ms = rng.between(20, 800),
                            .who = static_cast<int>(rng.integer(0, s.workers - 1))});
      return;
    case 1: {  // new workers reach a new coordinator before those that hold the result
      s.workers = static_cast<int>(rng.integer(1, 2)), s.min_workers = 1, s.network.loss = 0;
      const double at = rng.between(350, work_ms), away = rng.between(50, 2500);
      s.faults.push_back({.kind = rng.chance(0.5) ? Kind::coordinator_kill : Kind::coordinator_power, .at_ms = at, .for_ms = away});
      for (int64_t i = rng.integer(1, 3); i > 0; --i) s.faults.push_back({.kind = Kind::join, .at_ms = at + away * rng.between(0.5, 1)});
      return;
    }
    case 2: {  // the ledger cannot be written when its last rounds are lost, and its coordinator goes before it can be
      s.workers = static_cast<int>(rng.integer(2, 3)), s.min_workers = 1, s.network.loss = 0, s.checkpoint_every = 0;
      s.example_ms = std::max(s.example_ms, 2000.0 * s.workers / static_cast<double>(s.planned));
      const double full = rng.between(400, 700), cut = full + rng.between(0, 200);
      s.faults.push_back({.kind = Kind::disk_full, .at_ms = full, .for_ms = rng.between(4000, 9000)});
      for (int i = 0; i < s.workers; ++i)
        s.faults.push_back({.kind = Kind::worker_kill, .at_ms = cut, .for_ms = rng.between(50, 300) + 1500 * i, .who = i});
      s.faults.push_back({.kind = Kind::coordinator_kill, .at_ms = cut + 3600 + rng.between(0, 1500), .for_ms = rng.between(50, 400)});
      return;
    }
    default: {  // what was said before is said again, in another generation
      s.workers = static_cast<int>(rng.integer(2, 5)), s.min_workers = 1;
      s.faults.push_back({.kind = Kind::duplicates, .at_ms = 300, .for_ms = work_ms + 3000, .how = rng.between(0.2, 0.5)});
      for (int64_t i = rng.integer(2, 6); i > 0; --i)
        s.faults.push_back({.kind = rng.chance(0.5) ? Kind::reset_pair : Kind::worker_kill,
                            .at_ms = rng.between(350, work_ms + 300),
                            .for_ms = rng.between(20, 300),
                            .who = static_cast<int>(rng.integer(0, s.workers - 1)),
                            .other = static_cast<int>(rng.integer(0, s.workers - 1))});
      return;
    }
  }
}

bool finds_wrong_result(const Scenario& s) { return !s.faults.empty() && s.faults[0].kind == Fault::Kind::wrong_apply; }

Scenario make_cluster(uint64_t seed, const std::string& policy, SeededRng& rng) {
  Scenario s{.seed = seed};
  const auto& policies = scenario_policies();
  const std::string chosen = policies[static_cast<size_t>(rng.integer(0, kFirstPolicies - 1))];
  s.averaging = averaging_of(policy.empty() ? chosen : policy, rng);
  s.repeats = policy == "allreduce_repeats";
  s.workers = rng.chance(0.05) ? static_cast<int>(rng.integer(9, 16)) : static_cast<int>(rng.integer(1, 6));
  s.min_workers = rng.chance(0.7) ? 1 : static_cast<int>(rng.integer(1, s.workers));
  s.workers_per_host = rng.chance(0.6) ? 1 : static_cast<int>(rng.integer(1, 4));
  s.examples = rng.integer(20, 160);
  s.planned = rng.chance(0.8) ? s.examples * rng.integer(1, 3) : rng.integer(s.examples / 2, s.examples * 3);
  s.batch = rng.integer(1, 8);
  if (rng.chance(0.3)) s.global_batch = rng.integer(4, 32);
  s.example_ms = std::exp(rng.between(std::log(0.5), std::log(20.0)));
  s.buckets = static_cast<int>(rng.integer(1, 4));
  s.network.latency_ms = std::exp(rng.between(std::log(0.05), std::log(40.0)));
  s.network.jitter_ms = s.network.latency_ms * rng.between(0, 1);
  s.network.bytes_per_s = std::exp(rng.between(std::log(1e6), std::log(1e9)));
  if (rng.chance(0.2)) s.network.loss = rng.between(0, 0.05);
  s.queue_bytes = static_cast<size_t>(1) << rng.integer(10, 20);
  s.skewed_clocks = rng.chance(0.5);
  s.evaluates = rng.chance(0.3);
  s.checkpoint_every = rng.chance(0.5) ? static_cast<int>(rng.integer(2, 12)) : 0;
  if (SeededRng shards(mix(seed, 0x73686172)); policy == "sharded" || (policy.empty() && shards.chance(0.2)))
    s.shards = shards.integer(2, 8);
  return s;
}

void add_faults(Scenario& s, double work_ms, SeededRng& rng) {
  const int count = static_cast<int>(rng.chance(0.1) ? 0 : rng.integer(1, 6));
  for (int i = 0; i < count; ++i) {
    const auto kind = static_cast<Fault::Kind>(rng.integer(0, static_cast<int64_t>(Fault::Kind::intruder)));
    s.faults.push_back(make_fault(kind, rng.between(0, work_ms + 200), s.workers, rng));
  }
  // A wrong result can be told from right ones only by a majority, and only in a round of several.
  if (std::any_of(s.faults.begin(), s.faults.end(), [](const Fault& f) { return f.kind == Fault::Kind::wrong_apply; })) {
    std::erase_if(s.faults, [](const Fault& f) { return f.kind != Fault::Kind::wrong_apply; });
    s.faults.resize(1);
    s.workers = s.min_workers = std::max(s.workers, 3);
    s.averaging.erase("quorum"), s.averaging.erase("grace_ms");
  }
  if (rng.chance(0.03) && !finds_wrong_result(s)) {  // workers come and go: 1 -> 16 -> 3
    s.workers = 1, s.min_workers = 1;
    for (int i = 0; i < 15; ++i) s.faults.push_back({.kind = Fault::Kind::join, .at_ms = rng.between(100, work_ms)});
    for (int i = 0; i < 13; ++i)
      s.faults.push_back(
          {.kind = Fault::Kind::leave, .at_ms = rng.between(work_ms, 2 * work_ms), .who = static_cast<int>(rng.integer(0, 15))});
  }
}

// Later additions to scenarios. Their draws are their own, so that earlier scenarios stay the same.
void add_groups_and_codecs(Scenario& s, const std::string& policy, bool wrong, double work_ms) {
  const uint64_t seed = s.seed;
  if (SeededRng inner(mix(seed, 0x696e6e65)); policy.empty() && !wrong && inner.chance(0.2)) {
    s.averaging = nested_or_gossip(inner.chance(0.5) ? "nested" : "gossip", inner);
    s.workers = std::max(s.workers, 2);
  }
  if (SeededRng codec(mix(seed, 0x636f6465)); (s.averaging.find("codec") && *s.averaging.find("codec") == Json("int8")) ||
                                              (s.averaging.find("max_staleness") && codec.chance(0.4))) {
    s.averaging.set("codec", "int8");
    if (codec.chance(0.15) && !wrong) s.faults.push_back(make_fault(Fault::Kind::bad_payload, codec.between(0, work_ms), s.workers, codec));
  }
}

void add_pace_and_outliers(Scenario& s, const std::string& policy, bool wrong, double work_ms) {
  const uint64_t seed = s.seed;
  // The server is the worker after those that train.
  if (SeededRng server(mix(seed, 0x73657276)); s.served())
    for (Fault& fault : s.faults)
      if (server.chance(0.3)) (server.chance(0.5) ? fault.who : fault.other) = s.workers;
  const Json* every = s.averaging.find("every");
  if (SeededRng pace(mix(seed, 0x70616365));
      policy.empty() && every && !s.averaging.find("synchrony") && !s.averaging.find("consensus") && pace.chance(0.35))
    set_pace(pace.chance(0.5), pace, &s.averaging);
  if (SeededRng outlying(mix(seed, 0x6f75746c)); s.averaging.find("max_staleness") && !s.averaging.find("synchrony") &&
                                                 !s.averaging.find("consensus") && !s.averaging.find("overlap") && outlying.chance(0.15) &&
                                                 !wrong)
    s.faults.push_back(make_fault(Fault::Kind::outlying, outlying.between(0, work_ms), s.workers, outlying));
}

// A step of all lanes is a batch of each shard. An epoch is whole steps.
void deal_out_streams(Scenario& s) {
  SeededRng lanes(mix(s.seed, 0x6c616e65));
  s.shards = lanes.integer(1, 8), s.streams = s.shards * s.batch, s.global_batch = 0;
  const int64_t epochs = std::max<int64_t>(1, s.planned / s.examples);
  s.examples = std::max<int64_t>(3, s.examples / s.streams) * s.streams;
  s.planned = lanes.chance(0.8) ? s.examples * epochs : lanes.integer(s.examples / 2, s.examples * epochs);
}

// Each partition has a holder or two, whom most of the faults strike; all come back.
void hold_partitions(Scenario& s, double work_ms) {
  using Kind = Fault::Kind;
  static constexpr Kind kKinds[] = {Kind::worker_kill, Kind::worker_kill,        Kind::worker_power, Kind::worker_pause,
                                    Kind::other_rows,  Kind::other_rows,         Kind::partition,    Kind::partition_outgoing,
                                    Kind::half_open,   Kind::partition_incoming, Kind::flapping,     Kind::partition_pair,
                                    Kind::reset,       Kind::reset_pair,         Kind::slow_link,    Kind::swallow,
                                    Kind::loss,        Kind::coordinator_kill,   Kind::join};
  SeededRng rng(mix(s.seed, 0x68656c64));
  s.workers = std::max(s.workers, 2), s.workers_per_host = 1;
  s.partitions = static_cast<int>(rng.integer(2, std::min<int64_t>(2 * s.workers, s.examples / 2)));
  if (rng.chance(0.4)) s.averaging = Json(Json::Object{{"type", "allreduce"}});
  s.faults.clear();
  for (int64_t i = rng.integer(0, 5); i > 0; --i)
    s.faults.push_back(make_fault(kKinds[rng.integer(0, std::size(kKinds) - 1)], rng.between(0, work_ms + 500), s.workers, rng));
}

// Everything that was learnt is lost while most of the work is ahead, and is learnt again.
void lose_everything(Scenario& s, SeededRng& rng) {
  s.faults.clear();
  s.network.loss = 0, s.checkpoint_every = 0;
  s.workers = std::min(s.workers, 3), s.min_workers = 1;
  s.examples = 400, s.planned = 1200;
  s.batch = 1, s.global_batch = 0;
  s.example_ms = std::max(s.example_ms, 4000.0 * s.workers / static_cast<double>(s.planned));
  const double work_ms = s.example_ms * static_cast<double>(s.planned) / s.workers;
  for (int64_t times = rng.integer(1, 2); times > 0; --times) {
    const double at = rng.between(300 + 0.05 * work_ms, 300 + 0.4 * work_ms);
    const double back = rng.between(50, 500);
    for (int who = s.averaging.find("synchrony") ? s.workers : 0; who < s.workers + 1; ++who)
      s.faults.push_back({.kind = Fault::Kind::worker_kill, .at_ms = at, .for_ms = back, .who = who});
  }
}

// The server dies, and dies again while it makes what was lost; nothing else happens.
void lose_servers(Scenario& s, SeededRng& rng) {
  s.faults.clear();
  s.network.loss = 0, s.min_workers = 1;
  if (rng.chance(0.7)) s.checkpoint_every = 0;
  s.example_ms = std::clamp(s.example_ms, 3000.0 * s.workers / static_cast<double>(s.planned), 30.0);
  const double work_ms = s.example_ms * static_cast<double>(s.planned) / s.workers;
  for (int64_t times = rng.integer(1, 4); times > 0; --times) {
    double at = rng.between(300, 300 + 1.2 * work_ms);
    for (int64_t again = rng.chance(0.3) ? rng.integer(2, 3) : 1; again > 0; --again, at += rng.between(100, 900))
      s.faults.push_back({.kind = Fault::Kind::worker_kill, .at_ms = at, .for_ms = rng.between(20, 400), .who = s.workers});
  }
}

// A worker waits for the step of another one for less than the policy's deadline: a job that allows less cannot be trained.
void allow_steps(Scenario& s) {
  Json averaging = s.averaging;
  const Json* across = averaging.is_object() ? averaging.find("across") : nullptr;
  Json of = across ? *across : averaging;
  // Where there are fewer shards than workers some compute several batches, and the others none.
  const bool gradients = of.is_object() && of.find("type") && of.find("type")->as_string() == "allreduce";
  const Json* shards = gradients ? of.find("shards") : nullptr;
  const int64_t global = s.global_batch > 0 ? s.global_batch : s.batch * s.workers;
  const int64_t split = shards && shards->as_int() > 0 ? std::min<int64_t>(s.workers, shards->as_int()) : s.workers;
  const double least_ms = 2 * s.example_ms * static_cast<double>(std::max(s.batch, (global + split - 1) / split));
  const Json* deadline = of.is_object() ? of.find("deadline_ms") : nullptr;
  if (!deadline || deadline->as_number() >= least_ms) return;
  of.set("deadline_ms", least_ms);
  if (across) s.averaging.set("across", std::move(of));
  else s.averaging = std::move(of);
}

}  // namespace

Scenario make_scenario(uint64_t seed, const std::string& asked) {
  SeededRng steering(mix(seed, 0x73746565));
  // For any policy. Half of the runs have no other fault.
  const bool steered = asked == "steered";
  const std::string policy = steered ? scenario_policies()[static_cast<size_t>(steering.integer(0, kSteeredPolicies - 1))] : asked;
  SeededRng rng(mix(seed, 0x7363656e));
  Scenario s = make_cluster(seed, policy, rng);
  // Faults fall into the time that the work takes, more or less.
  const double work_ms = std::max(500.0, s.example_ms * static_cast<double>(s.planned) / s.workers * 1.5);
  add_faults(s, work_ms, rng);
  const bool wrong = finds_wrong_result(s);
  if (SeededRng special(mix(seed, 0x73706563)); special.chance(0.08)) make_special(s, special);
  add_groups_and_codecs(s, policy, wrong, work_ms);
  add_pace_and_outliers(s, policy, wrong, work_ms);
  if (SeededRng lost(mix(seed, 0x6c6f7374)); !wrong && lost.chance(0.03)) lose_everything(s, lost);
  if (SeededRng silent(mix(seed, 0x68616c66)); !wrong && s.workers > 1 && silent.chance(0.1))
    s.faults.push_back(make_fault(Fault::Kind::half_open, silent.between(300, work_ms + 300), s.workers, silent));
  if (SeededRng withheld(mix(seed, 0x77697468)); !wrong && withheld.chance(0.04))
    s.faults.push_back(make_fault(Fault::Kind::withholds, withheld.between(300, work_ms + 300), s.workers, withheld));
  if (SeededRng relay(mix(seed, 0x7377616c)); !wrong && relay.chance(0.05))
    s.faults.push_back(make_fault(Fault::Kind::swallow, relay.between(300, work_ms + 300), s.workers, relay));
  if (SeededRng dying(mix(seed, 0x64696573)); s.served() && !steered && !wrong && dying.chance(0.15)) lose_servers(s, dying);
  if (SeededRng agents(mix(seed, 0x61676e74)); agents.chance(0.3)) s.agents = false;
  if (policy == "streamed") deal_out_streams(s);
  if (policy == "partitioned") hold_partitions(s, work_ms);
  if (steered && steering.chance(0.5)) s.faults.clear();
  if (steered || (policy.empty() && !wrong && steering.chance(0.15)))
    for (int64_t i = steering.integer(1, 4); i > 0; --i)
      s.faults.push_back(make_fault(Fault::Kind::steer, steering.between(300, work_ms + 400), s.workers, steering));
  allow_steps(s);
  std::sort(s.faults.begin(), s.faults.end(), [](const Fault& a, const Fault& b) { return a.at_ms < b.at_ms; });
  return s;
}

}  // namespace perigee::sim
