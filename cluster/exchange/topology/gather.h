// How payloads spread: for each rank's a tree over the ranks, rooted there, along which it goes unchanged. A topology's file says the
// tree; chunks, lengths, queues and checks are the same for all (gather_exchange.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/exchange/topology/trees.h"

namespace perigee {

// One rank's place in the tree of one payload.
struct GatherPlace {
  int from = -1;  // -1: it is its own
  std::vector<int> to;
};

using GatherShape = GatherPlace (*)(const World& world, int source, int rank);

// A chunk of a payload carries the payload's length (64 bits, little-endian), then its bytes from `offset` on, a multiple of
// kGatherPiece. `row` is the rank whose payload it is.
inline constexpr size_t kGatherLength = sizeof(uint64_t);
inline constexpr size_t kGatherPiece = kChunkBytes - kGatherLength;

std::unique_ptr<Gather> make_gather_exchange(GatherShape shape, GatherSetup setup);
double gather_bytes_sent(GatherShape shape, int rank, const std::vector<std::string>& hosts, double bytes);

}  // namespace perigee
