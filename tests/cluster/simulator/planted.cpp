// Tests the simulator: plants each deliberate bug of cluster/planted.h in turn and runs seeds until one of them is noticed, by the oracle or
// by an assertion. Prints which were caught and when; fails when one is not, or when a seed fails without any bug. Speaks TAP.
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
#include "tests/cluster/simulator/properties.h"
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

constexpr uint64_t kPropertySeeds = 25;  // without a bug: each is several long runs

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
    case Bug::streams_helped:
    case Bug::streams_kept: return {"streamed"};
    case Bug::shard_forgets_others: return {"sharded"};
    case Bug::partition_unchecked:
    case Bug::holders_untold:
    case Bug::silent_holder_kept: return {"partitioned"};
    case Bug::pause_evicts:
    case Bug::setting_untold: return {"steered"};
    case Bug::pace_unbounded: return {"auto", "by_speed"};
    case Bug::part_not_awaited: return {"allreduce_passes", "allreduce_repeats"};
    case Bug::step_payload_order: return {"allreduce_coded"};
    default: return {""};
  }
}

// Bugs that only a cluster with a standby, or agents, can show are searched there.
std::string failure_of(Bug bug, uint64_t seed) {
  if (only_with_standby(bug)) return simulate_standby(seed).failure;
  if (only_with_agents(bug)) return simulate_agents(seed).failure;
  for (const Property& property : kProperties) {
    if (property.shows == bug) return property.failure(seed);
    if (bug != Bug::none || seed >= kPropertySeeds) continue;
    if (const std::string failure = property.failure(seed); !failure.empty()) return property.name + (": " + failure);
  }
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
  const bool enough = caught_count == count;
  std::printf("%sok 1 - %d of %d planted bugs caught\n", enough || !only.empty() ? "" : "not ", caught_count, count);
  const Catch none = hunt(Bug::none, 200);
  std::printf("%sok 2 - without a bug nothing is caught %s\n", none.seed < 0 ? "" : "not ", none.how.c_str());
  return enough && none.seed < 0 ? 0 : 1;
}
