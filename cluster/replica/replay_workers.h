// Trains a recorded run of workers that train while a round is on its way again: each worker's trainer does what its record says, in a thread
// of its own, and waits where it took something of others. What they stage is added up by the exchange of the real processes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/ledger/trainer_record.h"
#include "cluster/replica/replay.h"

namespace perigee {

// `booked`: the hashes of the rounds that count, by the run's ledger. Error as replay().
ReplayOutcome replay_workers(const std::vector<TrainerLog>& logs, const std::map<int64_t, uint64_t>& booked);

}  // namespace perigee
