// Who averages with whom between two rounds: a pure function of policy, members, round and the job's seed, so that no message is needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/policy/policy.h"
#include "cluster/protocol/message.h"

namespace perigee {

inline constexpr int64_t kMaxInnerExchanges = 4096;  // of a round

// How many inner exchanges come before the one that ends a round: one after every inner.every local steps.
int64_t inner_exchanges(const Policy& policy);

// Equal for members that are near each other.
std::string site_of(const Policy::Inner& inner, const std::vector<Member>& members, int rank);

// The ranks, ascending, that exchange with `rank` in exchange `index` (from 0) of `round`; `rank` alone: it has no partner.
std::vector<int> inner_group(const Policy::Inner& inner, const std::vector<Member>& members, int rank, int64_t round, int64_t index,
                             uint64_t seed);

}  // namespace perigee
