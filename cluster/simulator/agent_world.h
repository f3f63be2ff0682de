// Agents and a launcher over the simulated network: the real Agent and AgentClient, worker processes that crash, are killed or do not want
// to end, agents that die, are stopped and cut off, launchers that come back. By seed; an oracle says whether what must hold held: never
// two workers in one slot, none left when the job is over, no more restarts than allowed, and each end told at most once.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace perigee::sim {

struct AgentOutcome {
  std::string failure;                   // empty: everything held
  std::map<std::string, int64_t> sites;  // what was reached, in how many worlds or how often
  uint64_t trace_hash = 0;
  bool passed() const { return failure.empty(); }
};

AgentOutcome simulate_agents(uint64_t seed, bool trace = false);

}  // namespace perigee::sim
