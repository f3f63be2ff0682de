// Runs simulated clusters with a standby from seeds: simulate_standby [--seeds N] [--from S] [--seed X]. The last line is
// `N passed, N failed, 0 skipped`.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cluster/simulator/standby_world.h"

using namespace perigee::sim;

int main(int argc, char** argv) {
  uint64_t seeds = 1000, from = 0;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (option == "--seeds") seeds = value();
    else if (option == "--from") from = value();
    else if (option == "--seed") from = value(), seeds = 1, trace = true;
    else return std::printf("usage: simulate_standby [--seeds N] [--from S] [--seed X]\n"), 2;
  }
  uint64_t failed = 0, taken = 0, superseded = 0;
  std::map<std::string, uint64_t> reached;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const StandbyOutcome outcome = simulate_standby(seed, trace);
    taken += outcome.taken_over, superseded += outcome.superseded;
    for (const auto& [site, times] : outcome.reached) ++reached[site];
    if (outcome.failure.empty()) continue;
    if (++failed <= 20) std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(seed), outcome.failure.c_str());
    std::fflush(stdout);
  }
  std::printf("reached, in so many seeds:\n");
  for (const auto& [site, times] : reached) std::printf("  %8llu  %s\n", static_cast<unsigned long long>(times), site.c_str());
  std::printf("the standby took over in %llu, the old coordinator was told so in %llu\n", static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(superseded));
  std::printf("%llu passed, %llu failed, 0 skipped\n", static_cast<unsigned long long>(seeds - failed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
