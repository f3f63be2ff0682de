// Fingerprints of data, compared so that all workers train on the same.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/protocol/message.h"
#include "src/train/trainer.h"

namespace perigee {

// One for every part that the job has. `full`: of every example, not of 64. Opens the parts. Error(data).
std::vector<DataPrint> print_data(Trainer& trainer, bool full);
// One number for all of them; never 0.
uint64_t fingerprint_of(const std::vector<DataPrint>& prints);

}  // namespace perigee
