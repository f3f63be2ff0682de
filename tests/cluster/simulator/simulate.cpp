// Runs simulated clusters from seeds: simulate [--seeds N] [--from S] [--policy P] [--seed X] [--fault NAME:AT_MS:FOR_MS] [--trace]
// or small worlds of encrypted connections, or of agents: simulate --tls|--agents [--seeds N] [--from S]
// Each seed is a cluster, a policy, a network and faults; the oracle says whether everything that must hold held. A failing seed is
// printed and can be run again alone with --seed X --trace. The last line is `N passed, N failed, 0 skipped`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#include "cluster/simulator/agent_world.h"
#include "cluster/simulator/tls_world.h"
#include "cluster/simulator/world.h"

using namespace perigee;
using namespace perigee::sim;

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Small worlds of their own: `run` gives a failure and what was reached.
template <class Run>
int run_small(const char* prefix, uint64_t from, uint64_t seeds, Run run) {
  uint64_t failed = 0;
  std::map<std::string, int64_t> reached;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const auto outcome = run(seed);
    for (const auto& [site, times] : outcome.sites) reached[site] += times;
    if (!outcome.passed() && ++failed <= 20)
      std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(seed), outcome.failure.c_str());
  }
  for (const auto& [site, times] : reached) std::printf("  %8lld  %s_%s\n", static_cast<long long>(times), prefix, site.c_str());
  std::printf("%llu passed, %llu failed, 0 skipped\n", static_cast<unsigned long long>(seeds - failed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

void describe(const Scenario& s) {
  std::printf("seed %llu: %d workers (at least %d), %lld examples, %lld planned, batch %lld (%lld), %g ms an example, averaging %s\n",
              static_cast<unsigned long long>(s.seed), s.workers, s.min_workers, static_cast<long long>(s.examples),
              static_cast<long long>(s.planned), static_cast<long long>(s.batch), static_cast<long long>(s.global_batch), s.example_ms,
              s.averaging.dump().c_str());
  for (const Fault& f : s.faults)
    std::printf("  at %.0f ms for %.0f ms: %s of worker %d (%d), %g\n", f.at_ms, f.for_ms, to_string(f.kind), f.who, f.other, f.how);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 1000, from = 0;
  std::string policy, fault;
  bool trace = false, one = false, tls = false, agents = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (option == "--seeds") seeds = std::strtoull(value(), nullptr, 10);
    else if (option == "--from") from = std::strtoull(value(), nullptr, 10);
    else if (option == "--policy") policy = value();
    else if (option == "--seed") from = std::strtoull(value(), nullptr, 10), seeds = 1, one = true;
    else if (option == "--fault") fault = value();
    else if (option == "--trace") trace = true;
    else if (option == "--tls") tls = true;
    else if (option == "--agents") agents = true;
    else
      return std::printf(
                 "usage: simulate [--seeds N] [--from S] [--policy P] [--seed X] [--fault NAME:AT_MS:FOR_MS] [--trace] [--tls | "
                 "--agents]\n"),
             2;
  }
  if (tls) return run_small("tls", from, seeds, simulate_tls);
  if (agents) return run_small("agents", from, seeds, [&](uint64_t seed) { return simulate_agents(seed, trace); });
  if (!fault.empty()) {  // NAME:AT_MS:FOR_MS
    Scenario scenario{.seed = from, .workers = 4, .examples = 200, .planned = 800};
    if (!policy.empty()) scenario.averaging = policy;
    Fault one;
    const size_t colon = fault.find(':');
    for (int kind = 0; kind < static_cast<int>(Fault::Kind::count); ++kind)
      if (fault.substr(0, colon) == to_string(static_cast<Fault::Kind>(kind))) one.kind = static_cast<Fault::Kind>(kind);
    if (colon != std::string::npos) std::sscanf(fault.c_str() + colon, ":%lf:%lf", &one.at_ms, &one.for_ms);
    scenario.faults = {one};
    const Outcome outcome = simulate(scenario, {.trace = trace});
    std::printf("%s\n", outcome.passed() ? "passed" : outcome.failure.c_str());
    return outcome.passed() ? 0 : 1;
  }
  uint64_t failed = 0, virtual_ns = 0, events = 0, hash = 0;
  std::map<std::string, uint64_t> reached;
  const double start = cpu_seconds();
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const Scenario scenario = make_scenario(seed, policy);
    if (one) describe(scenario), std::fflush(stdout);
    const Outcome outcome = simulate(scenario, {.trace = trace});
    virtual_ns += outcome.virtual_ns;
    events += outcome.events;
    hash = mix(hash, outcome.trace_hash);
    for (const auto& [site, times] : outcome.sites) ++reached[site];
    if (!outcome.passed() && ++failed <= 20)
      std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(seed), outcome.failure.c_str());
    if (one) std::printf("%s\naudit %s\n", outcome.passed() ? "passed" : "FAILED", outcome.audit.to_json().dump().c_str());
    std::fflush(stdout);
  }
  const double seconds = cpu_seconds() - start;
  std::printf("reached, in so many seeds:\n");
  for (const auto& [site, times] : reached) std::printf("  %8llu  %s\n", static_cast<unsigned long long>(times), site.c_str());
  std::printf("%.0f seeds/s of CPU time, %.0f times faster than real time, %.2f million events/s, trace hash %016llx\n",
              static_cast<double>(seeds) / seconds, static_cast<double>(virtual_ns) * 1e-9 / seconds,
              static_cast<double>(events) / seconds * 1e-6, static_cast<unsigned long long>(hash));
  std::printf("%llu passed, %llu failed, 0 skipped\n", static_cast<unsigned long long>(seeds - failed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
