// Arithmetic on lists of ranges of examples.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/protocol/message.h"

namespace perigee {

// Joins ranges that continue each other; sorts them.
std::vector<Range> joined(std::vector<Range> ranges);
// a without b.
std::vector<Range> without(const std::vector<Range>& a, const std::vector<Range>& b);
bool overlaps(const Range& a, const Range& b);
// No position is in two of them.
bool disjoint(const std::vector<Range>& ranges);
int64_t examples_of(const std::vector<Range>& ranges);

}  // namespace perigee
