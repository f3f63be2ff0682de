// A policy as its axes tell it to people and programs.
#pragma once

#include "cluster/policy/policy.h"

namespace perigee {

inline constexpr double kDescribedWorkers = 4;

// "type", "when" ("every 20 steps"), "what" ("parameters"), "optimizer_state", "merge", "synchrony", "max_staleness", "topology", "gain" with
// kDescribedWorkers workers, and where the policy has them "before", "overlap", "outer", "server", "guard".
Json describe_policy(const Policy& policy);

}  // namespace perigee
