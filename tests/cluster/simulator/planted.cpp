// Tests the simulator: plants each deliberate bug of cluster/planted.h in turn and runs seeds until one of them is noticed, by the oracle or
// by an assertion. Prints who was caught and when; fails when more than one in six is not, or when a seed fails without any bug. Speaks TAP.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cluster/planted.h"
#include "cluster/simulator/agent_world.h"
#include "cluster/simulator/world.h"
#include "tests/cluster/simulator/standby_world.h"

using namespace perigee;
using namespace perigee::sim;

namespace {

struct NamedBug {
  Bug bug;
  const char* name;
  const char* doc;
};
constexpr NamedBug kBugs[] = {
#define PERIGEE_BUG(name, doc) {Bug::name, #name, doc},
    PERIGEE_BUGS(PERIGEE_BUG)
#undef PERIGEE_BUG
};

bool only_with_standby(Bug bug) { return bug == Bug::no_majority || bug == Bug::minority_commits; }

bool only_with_agents(Bug bug) { return bug == Bug::failures_kept || bug == Bug::agents_counted_once; }

std::string only_policy;  // of the command line: planted SEEDS BUG POLICY

// Bugs that only some policies can show are searched with those, in turns.
std::vector<std::string> policies_that_show(Bug bug) {
  if (!only_policy.empty()) return {only_policy};
  switch (bug) {
    case Bug::carried_forgotten:
    case Bug::fragment_sent_twice: return {"overlap", "streaming"};
    case Bug::undue_fragments_dropped: return {"streaming"};
    case Bug::applies_ahead: return {"overlap", "post_local"};
    case Bug::line_ignored: return {"allreduce", "overlap", "served"};
    case Bug::push_fence:
    case Bug::push_repeated:
    case Bug::stale_merged:
    case Bug::counted_untold:
    case Bug::void_base_kept:
    case Bug::nothing_redone:
    case Bug::pushes_not_kept:
    case Bug::served_unordered: return {"served", "served_stale", "served_merged"};
    case Bug::inner_index_kept:
    case Bug::inner_ahead_refused: return {"nested", "gossip"};
    case Bug::shard_forgets_others: return {"sharded"};
    case Bug::pause_evicts:
    case Bug::setting_untold: return {"steered"};
    case Bug::pace_unbounded: return {"auto", "by_speed"};
    case Bug::part_not_awaited: return {"allreduce_passes", "allreduce_repeats"};
    case Bug::step_payload_order: return {"allreduce_coded"};
    default: return {""};
  }
}

// Results that take long to apply, and members that come and go meanwhile.
Scenario changing_members(uint64_t seed) {
  sim::SeededRng rng(mix(seed, 0x6d656d62));
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
  return s;
}

// Two leaves of a star never send each other anything, unless one joined late and had the result from the other: their link is not missed.
// One at least of the four pairs here has no traffic.
std::string failure_of_unused_link(uint64_t seed) {
  int told = 0;
  for (int one = 0; one < 8; one += 2) {
    Scenario s{.seed = seed, .workers = 8, .examples = 200, .planned = 800};
    s.averaging = Json(Json::Object{{"type", "periodic"}, {"topology", "star"}});
    s.faults = {{.kind = Fault::Kind::reset_pair, .at_ms = 900, .for_ms = 20, .who = one, .other = one + 1}};
    const Outcome outcome = simulate(s);
    if (!outcome.passed()) return outcome.failure;
    told += outcome.sites.contains("link_lost") ? 1 : 0;
  }
  return told == 4 ? "the loss of a link that nobody uses is told" : "";
}

// Bugs that only a cluster with a standby, or agents, can show are searched there.
std::string failure_of(Bug bug, uint64_t seed) {
  if (only_with_standby(bug)) return simulate_standby(seed).failure;
  if (only_with_agents(bug)) return simulate_agents(seed).failure;
  if (bug == Bug::old_links_mourned) return failure_of_unused_link(seed);
  if (bug == Bug::formed_too_soon) return simulate(changing_members(seed)).failure;
  if (bug == Bug::none)
    for (const std::string& failure : {failure_of_unused_link(seed), simulate(changing_members(seed)).failure})
      if (!failure.empty()) return failure;
  const std::vector<std::string> policies = policies_that_show(bug);
  return simulate(make_scenario(seed, policies[seed % policies.size()])).failure;
}

struct Catch {
  long seed = -1;  // -1: not caught
  std::string how;
};

// In a process of its own, since an assertion may end it. It tells the seed it is at, and at last what the oracle found.
Catch hunt(Bug bug, long seeds) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
    planted_bug = bug;
    FILE* out = fdopen(pipe_ends[1], "w");
    for (long seed = 0; seed < (only_with_standby(bug) ? 4 : 1) * seeds; ++seed) {
      std::fprintf(out, "%ld\n", seed);
      std::fflush(out);
      const std::string failure = failure_of(bug, static_cast<uint64_t>(seed));
      if (failure.empty()) continue;
      std::fprintf(out, "%s\n", failure.substr(0, failure.find('\n')).substr(0, 100).c_str());
      std::fflush(out);
      _exit(1);
    }
    _exit(0);
  }
  close(pipe_ends[1]);
  Catch caught;
  FILE* in = fdopen(pipe_ends[0], "r");
  std::string last;
  char line[256];
  while (std::fgets(line, sizeof line, in)) {
    last = line;
    if (!last.empty() && last.back() == '\n') last.pop_back();
    char* end = nullptr;
    const long seed = std::strtol(line, &end, 10);
    if (end != line && (*end == '\n' || *end == 0)) caught.seed = seed;
  }
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  caught.how = WIFSIGNALED(status) ? "an assertion" : last;
  return caught;
}

}  // namespace

int main(int argc, char** argv) {
  const long seeds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 600;
  const std::string only = argc > 2 ? argv[2] : "";
  if (argc > 3) only_policy = argv[3];
  const int count = static_cast<int>(std::size(kBugs));
  std::printf("1..2\n");
  int caught_count = 0;
  for (const NamedBug& bug : kBugs) {
    if (!only.empty() && only != bug.name) continue;
    const Catch caught = hunt(bug.bug, seeds);
    if (caught.seed < 0) {
      std::printf("# NOT caught  %-24s %s\n", bug.name, bug.doc);
    } else {
      ++caught_count;
      std::printf("# caught      %-24s %s: seed %ld, %s\n", bug.name, bug.doc, caught.seed, caught.how.c_str());
    }
    std::fflush(stdout);
  }
  const bool enough = caught_count >= count - count / 6;
  std::printf("%sok 1 - %d of %d planted bugs caught\n", enough || !only.empty() ? "" : "not ", caught_count, count);
  const Catch none = hunt(Bug::none, 200);
  std::printf("%sok 2 - without a bug nothing is caught %s\n", none.seed < 0 ? "" : "not ", none.how.c_str());
  return enough && none.seed < 0 ? 0 : 1;
}
