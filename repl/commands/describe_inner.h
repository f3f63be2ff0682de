// What `perigee describe` says of exchanges inside groups between two rounds.
#pragma once

#include <cstdint>

#include "cluster/codec/codec.h"
#include "cluster/policy/policy.h"

namespace perigee {

// Nothing for a policy without them. Bytes of the parameter block, and of what goes beside it; elements of the block.
void describe_inner(const Policy& policy, double dense, double beside, const CodecSegment& block);

}  // namespace perigee
