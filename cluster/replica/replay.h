// Trains a recorded served run again in this process: for each worker a replica with local values of its own, and one for the server, the
// same code that ran in its processes; what the record says stands in for network and clock.
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/ledger/run_record.h"

namespace perigee {

struct ReplayOutcome {
  int64_t rounds = 0;              // trained again
  uint64_t hash = 0;               // after the last of them
  std::optional<int64_t> differs;  // the first round whose result was another one: what follows was not trained
  SharedBytes model;               // as a file holds it; null: there is no memory for it
};

// Error(model), Error(data); Error(usage) where this machine cannot give the same bits.
ReplayOutcome replay(const RunRecord& record);

}  // namespace perigee
