#include "tests/cluster/simulator/properties.h"

#include <algorithm>

#include "cluster/simulator/world.h"

namespace perigee::sim {
namespace {

std::string longer_than(const Outcome& outcome, double bound_ms, const std::string& who) {
  if (outcome.longest_pause_ms <= bound_ms) return "";
  return who + " held the others up for " + std::to_string(static_cast<int64_t>(outcome.longest_pause_ms)) + " ms, more than " +
         std::to_string(static_cast<int64_t>(bound_ms));
}

std::string went(const Outcome& outcome, const std::string& why) {
  return outcome.sites.contains("worker_lost") ? "a healthy worker has to go because " + why : "";
}

// A parameter server that adds up what its workers push.
Json served() {
  return Json::parse(R"({"type": "custom", "synchrony": "server", "every": 1, "max_staleness": 64, "outer": {
      "program": [{"op": "add", "in": ["mean", 0], "out": "t1"}], "outputs": {"global": "t1"}}})",
                     "averaging");
}

}  // namespace

// Two leaves of a star never send each other anything, unless one joined late and had the result from the other: their link is not missed.
// One at least of the four pairs here has no traffic.
std::string failure_of_unused_link(uint64_t seed) {
  int told = 0, gone = 0;
  for (int one = 0; one < 8; one += 2) {
    Scenario s{.seed = seed, .workers = 8, .examples = 200, .planned = 800};
    s.averaging = Json(Json::Object{{"type", "periodic"}, {"topology", "star"}});
    const Fault reset{.kind = Fault::Kind::reset_pair, .at_ms = 900, .for_ms = 20, .who = one, .other = one + 1};
    s.faults = {reset};
    const Outcome once = simulate(s);
    s.planned = 4000;
    for (const double at : {1500.0, 2100.0}) s.faults.push_back(reset), s.faults.back().at_ms = at;
    const Outcome thrice = simulate(s);
    for (const Outcome& outcome : {once, thrice})
      if (!outcome.passed()) return outcome.failure;
    told += once.sites.contains("link_lost") ? 1 : 0;
    gone += thrice.sites.contains("worker_lost") ? 1 : 0;
  }
  if (gone == 4) return "a healthy worker has to go because a link that nobody uses ended three times";
  return told == 4 ? "the loss of a link that nobody uses is told" : "";
}

std::string failure_of_late_complaint(uint64_t seed) {
  SeededRng rng(mix(seed, 0x6c617465));
  Scenario s{.seed = seed, .workers = 2 + static_cast<int>(seed % 3), .examples = 400, .planned = 2400, .example_ms = 10};
  s.averaging = seed % 2 == 0 ? "periodic" : "allreduce";
  s.network.latency_ms = rng.between(30, 90), s.network.jitter_ms = 5;
  s.faults = {{.kind = Fault::Kind::half_open, .at_ms = rng.between(1500, 3000), .who = 0, .other = 1}};
  const Outcome outcome = simulate(s);
  return outcome.passed() ? went(outcome, "its link fell silent once") : outcome.failure;
}

// Twenty steps, after which a worker that makes none is noticed as such, take far longer than the deadline.
std::string failure_of_deadline(uint64_t seed) {
  SeededRng rng(mix(seed, 0x64656164));
  Scenario s{.seed = seed, .workers = 3 + static_cast<int>(seed % 3), .examples = 200, .planned = 800, .batch = 4, .example_ms = 100};
  constexpr double kDeadlineMs = 1500;
  s.averaging = Json(Json::Object{{"type", "allreduce"}, {"deadline_ms", kDeadlineMs}});
  s.faults = {{.kind = Fault::Kind::stuck, .at_ms = rng.between(3000, 6000), .who = static_cast<int>(rng.integer(0, s.workers - 1))}};
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  const double step_ms = s.example_ms * static_cast<double>(s.batch);
  return longer_than(outcome, 2 * kDeadlineMs + 5 * step_ms, "a worker that stands still");
}

std::string failure_of_long_first_step(uint64_t seed) {
  SeededRng rng(mix(seed, 0x66697273));
  constexpr double kDeadlineMs = 1000;
  Scenario s{.seed = seed, .workers = 1, .examples = 48, .planned = 96, .batch = 4};
  s.example_ms = rng.between(1.2, 6) * kDeadlineMs / static_cast<double>(s.batch);
  s.averaging = Json(Json::Object{{"type", seed % 2 == 0 ? "allreduce" : "periodic"}, {"deadline_ms", kDeadlineMs}});
  s.network.loss = 1e-6;  // a worker may be told as stuck, whom nothing befell
  return simulate(s).failure;
}

std::string failure_of_learning_nothing(uint64_t seed) {
  Scenario s{.seed = seed, .workers = 1 + static_cast<int>(seed % 3), .examples = 400, .planned = 4000, .example_ms = 0.5, .learns = false};
  s.averaging = Json(Json::Object{{"type", seed % 4 == 3 ? "streaming" : "periodic"}, {"every", static_cast<int64_t>(4 + seed % 5)}});
  return simulate(s).failure;
}

std::string failure_of_silent_donor(uint64_t seed) {
  SeededRng rng(mix(seed, 0x646f6e6f));
  Scenario s{.seed = seed, .workers = 2, .examples = 400, .planned = 2400, .example_ms = 5};
  constexpr double kDeadlineMs = 1000;
  s.averaging = Json(Json::Object{{"type", "periodic"}, {"deadline_ms", kDeadlineMs}});
  const double at = rng.between(1500, 2500);
  s.faults = {{.kind = Fault::Kind::withholds, .at_ms = at, .for_ms = 30'000, .who = static_cast<int>(seed % 2)},
              {.kind = Fault::Kind::join, .at_ms = at + 100}};
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  return longer_than(outcome, kDeadlineMs + 1500, "a worker that does not hand over what it holds");
}

std::string failure_of_full_memory(uint64_t seed) {
  SeededRng rng(mix(seed, 0x66756c6c));
  Scenario s{.seed = seed, .workers = 1, .examples = 1500, .planned = 3000, .batch = 1, .example_ms = 0.15, .apply_ms = 0.02};
  s.averaging = served();
  s.network = {.latency_ms = rng.between(0.02, 0.04), .jitter_ms = 0};  // as many rounds as are remembered are made in less than 0.5 s
  Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  if (outcome.sites.contains("pushes_forgotten")) return "more is pushed than is kept before there is an image of the server";
  // No image comes, and more rounds are made than are remembered.
  s.faults = {{.kind = Fault::Kind::withholds, .at_ms = 400, .for_ms = 20'000, .who = s.workers}};
  outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  const auto told = outcome.sites.find("pushes_forgotten");
  if (told == outcome.sites.end()) return "nobody says that rounds would be lost with the server";
  return told->second == 1 ? "" : "that rounds would be lost with the server is said again and again";
}

std::string failure_of_untold_return(uint64_t seed) {
  SeededRng rng(mix(seed, 0x72657475));
  const bool seldom = seed % 2 == 1;  // an image comes after each round, before the next one
  Scenario s{.seed = seed, .workers = 2, .examples = 400, .planned = 1600, .batch = 4, .example_ms = seldom ? 300.0 : 2.0};
  s.averaging = served();
  s.faults = {{.kind = Fault::Kind::worker_kill, .at_ms = rng.between(5000, 8000) * (seldom ? 4 : 0.1), .for_ms = 200, .who = s.workers}};
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  const auto told = outcome.sites.find("server_restored");
  if (told == outcome.sites.end()) return "nobody says that the server is back";
  return told->second == 1 ? "" : "that the server is back is said again and again";
}

std::string failure_of_unheard_end(uint64_t seed) {
  using Kind = Fault::Kind;
  static constexpr Kind kKinds[] = {Kind::swallow, Kind::partition, Kind::worker_pause, Kind::partition_incoming, Kind::partition_outgoing};
  SeededRng rng(mix(seed, 0x756e6865));
  Scenario s{.seed = seed, .workers = 3, .examples = 400, .planned = 4000, .example_ms = 5};
  s.averaging = seed % 2 == 0 ? Json("periodic") : seed % 4 == 1 ? Json("allreduce") : served();
  const double calm_ms = simulate(s).ended_ms;
  const double for_ms = rng.between(300, 9000);
  const double at = std::max(400.0, calm_ms - for_ms + rng.between(-1500, 900));
  s.faults = {{.kind = kKinds[seed % std::size(kKinds)], .at_ms = at, .for_ms = for_ms, .who = static_cast<int>(rng.integer(0, 2))}};
  return simulate(s).failure;
}

std::string failure_of_awaited_dead(uint64_t seed) {
  SeededRng rng(mix(seed, 0x64656164));
  const bool with_server = seed % 2 == 0;
  Scenario s{.seed = seed, .workers = 2 + static_cast<int>(seed % 3), .examples = 400, .planned = 4000, .example_ms = 5};
  s.averaging = with_server ? served() : seed % 4 == 1 ? Json("periodic") : Json("allreduce");
  const double at = rng.between(1000, 2500), back = rng.between(20, 300);
  const int spared = with_server ? static_cast<int>(rng.integer(0, s.workers - 1)) : -1;
  for (int who = 0; who < s.workers + with_server; ++who)
    if (who != spared) s.faults.push_back({.kind = Fault::Kind::worker_kill, .at_ms = at, .for_ms = back, .who = who});
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  return longer_than(outcome, back + 1000, "workers that are known to be dead");
}

// The agent's second word comes four seconds after the end, when another worker has joined that holds nothing.
std::string failure_of_stale_death(uint64_t seed) {
  SeededRng rng(mix(seed, 0x7374616c));
  const double killed = rng.between(500, 800), cut = killed + 4000 - rng.between(2100, 2300);
  Scenario s{.seed = seed, .workers = 1, .examples = 400, .planned = 4000, .example_ms = 3};
  s.averaging = seed % 2 == 0 ? "periodic" : "allreduce";
  s.faults = {{.kind = Fault::Kind::worker_kill, .at_ms = killed, .for_ms = rng.between(20, 300)},
              {.kind = Fault::Kind::worker_pause, .at_ms = cut, .for_ms = rng.between(2600, 3200)},
              {.kind = Fault::Kind::join, .at_ms = cut + rng.between(1750, 1850)}};
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  const auto lost = outcome.sites.find("rounds_voided");  // once, with the process that was killed
  return lost != outcome.sites.end() && lost->second > 1 ? "rounds are given up although the worker that holds them is only stopped" : "";
}

// The membership is over when the holder is lost, so that it is no member; in some seeds it has come back once, and is lost again.
std::string failure_of_lonely_holder(uint64_t seed) {
  using Kind = Fault::Kind;
  SeededRng rng(mix(seed, 0x6c6f6e65));
  const bool with_server = seed % 3 == 0, twice = seed % 3 == 1;
  Scenario s{
      .seed = seed, .workers = with_server ? 1 : 3, .min_workers = with_server ? 1 : 2, .examples = 400, .planned = 4000, .example_ms = 5};
  s.averaging = with_server ? served() : seed % 2 == 0 ? Json("allreduce") : Json("periodic");
  const double killed = rng.between(1000, 2500);
  double cut = killed + rng.between(50, 150);
  if (twice) {
    s.faults.push_back({.kind = Kind::partition, .at_ms = cut, .for_ms = 2500});
    cut += rng.between(5500, 6000);
  }
  const double back = cut + rng.between(2300, 2500), for_ms = back - cut + rng.between(400, 900);
  s.faults.push_back({.kind = twice ? Kind::partition : Kind::worker_pause, .at_ms = cut, .for_ms = for_ms});
  const auto dies = [&](int who) { s.faults.push_back({.kind = Kind::worker_kill, .at_ms = killed, .for_ms = back - killed, .who = who}); };
  for (int who = 1; who < s.workers + with_server; ++who) dies(who);
  if (with_server) s.faults.push_back({.kind = Kind::join, .at_ms = back});
  const Outcome outcome = simulate(s);
  if (!outcome.passed()) return outcome.failure;
  return outcome.sites.contains("rounds_voided") ? "rounds are given up although a worker that waited with them is only cut off" : "";
}

std::string failure_of_changing_members(uint64_t seed) {
  SeededRng rng(mix(seed, 0x6d656d62));
  static const char* const kPolicies[] = {"periodic", "allreduce", "post_local"};
  Scenario s = make_scenario(seed, kPolicies[seed % 3]);
  s.network.loss = 0, s.apply_ms = rng.between(20, 150);
  s.workers = static_cast<int>(rng.integer(2, 5)), s.min_workers = 1, s.workers_per_host = 1;
  s.faults.clear();
  for (int64_t i = rng.integer(2, 6); i > 0; --i)
    s.faults.push_back({.kind = rng.chance(0.5) ? Fault::Kind::worker_kill : Fault::Kind::join,
                        .at_ms = rng.between(350, 1500),
                        .for_ms = rng.between(20, 800),
                        .who = static_cast<int>(rng.integer(0, s.workers - 1))});
  return simulate(s).failure;
}

}  // namespace perigee::sim
