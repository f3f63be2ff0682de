// Which memberships may be in force, and whether enough of their workers follow a coordinator: the arithmetic behind "only one side goes on".
// cluster/STANDBY.md proves it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"

namespace perigee {

// A coordinator that takes over begins a term. Generations of different terms are never equal, whichever coordinator counts on.
inline constexpr uint64_t kGenerationsPerTerm = 1'000'000;
inline uint64_t term_of(uint64_t generation) { return generation / kGenerationsPerTerm; }
inline uint64_t next_term(uint64_t generation) { return (term_of(generation) + 1) * kGenerationsPerTerm; }

// Adds what another node knows. Drops what the newest established membership made obsolete, and of the proposals of one term all but the
// last: their coordinator knew that those before had come to nothing.
void remember(std::vector<Membership>* known, const Membership& membership);

// Whether, of every membership in `known`, more than half of the workers are among `followers`; with the casting vote, at least half.
// No established one among them: false. The first needed no votes, so proposals alone tell nothing about it.
bool enough_votes(std::span<const WorkerId> followers, std::span<const Membership> known, bool casting_vote);

// The workers of `known` that are not among `followers`, by machine, for people: "host a (a/0, a/1), host c (c/0)".
std::string who_is_missing(std::span<const WorkerId> followers, std::span<const Membership> known, const std::map<WorkerId, Named>& who);

}  // namespace perigee
