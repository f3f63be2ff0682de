// A simulated cluster with a standby, from a seed: coordinator, standby and workers are killed, stopped and cut off from each other, and
// started again by agents and, sometimes, by a person. Whatever happens, one line of parameters is committed, and the run ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace perigee::sim {

struct StandbyOutcome {
  std::string failure;  // empty: everything held
  bool taken_over = false, superseded = false;
  std::map<std::string, int64_t> reached;
  uint64_t trace_hash = 0;
};

StandbyOutcome simulate_standby(uint64_t seed, bool trace = false);

}  // namespace perigee::sim
