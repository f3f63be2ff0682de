// An exchange seen from one rank, worked out before the first byte moves: how the bucket is cut, and for each segment what comes from
// whom, in which order it is added, and where it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/exchange/topology/summation.h"
#include "cluster/exchange/topology/trees.h"

namespace perigee {

// The content of one Chunk: part of one segment, either sums or maxima, never both.
struct Piece {
  size_t offset = 0;  // from the start of the bucket
  uint32_t bytes = 0;
  uint32_t segment = 0;
  uint32_t ordinal = 0;  // within its segment
  bool maxima = false;
};

struct Segment {
  uint32_t first[2] = {0, 0};  // pieces of sums, pieces of maxima
  uint32_t count[2] = {0, 0};
  TreePlace place;
  uint32_t summation = 0;
  std::vector<int> first_input;  // of each rank in place.reduce_from, and one behind the last
  size_t first_slot = 0;         // of piece 0; each piece has one slot per node of the summation
  uint32_t window = 0;           // pieces that may be sent ahead of the results: bounds what waits at the receiver

  uint32_t pieces() const { return count[0] + count[1]; }
  uint32_t piece(uint32_t ordinal) const { return ordinal < count[0] ? first[0] + ordinal : first[1] + (ordinal - count[0]); }
};

struct ExchangePlan {
  std::vector<Piece> pieces;  // by offset
  std::vector<Segment> segments;
  std::vector<Summation> summations;
  std::vector<size_t> sends;  // chunks to each rank
  size_t slots = 0;
  int own_inputs = 1;
  bool contributes = true;  // false: its inputs are nothing
};

ExchangePlan make_exchange_plan(const TreeShape& shape, const CollectiveSetup& setup);

}  // namespace perigee
