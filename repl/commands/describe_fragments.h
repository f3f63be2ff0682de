// `perigee describe`: the fragments of a policy that averages parts of the parameters by themselves.
#pragma once

#include <string>

#include "cluster/policy/policy.h"
#include "src/train/trainer.h"

namespace perigee {

// How a result meets local work: ", workers train on meanwhile, ..."; empty where it replaces it.
std::string overlap_text(const Policy& policy);
// A table, and what a round sends. `topology` bytes are of the busiest of four workers on four hosts.
void describe_fragments(const Policy& policy, Trainer& trainer, const std::string& where);

}  // namespace perigee
