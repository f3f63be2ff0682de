// How the workers of a scenario average: from the name of a policy, by the seed.
#pragma once

#include <string>

#include "cluster/simulator/seeded_rng.h"
#include "src/core/json.h"

namespace perigee::sim {

Json averaging_of(const std::string& policy, SeededRng& rng);
Json nested_or_gossip(const std::string& policy, SeededRng& rng);
// The number of steps follows from the workers' speed, or from the time that an exchange takes.
void set_pace(bool automatic, SeededRng& rng, Json* json);

}  // namespace perigee::sim
