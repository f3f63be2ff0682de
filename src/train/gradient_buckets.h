// The parameter block cut into buckets: parts of a gradient that are exchanged while backward computes the rest.
#pragma once

#include <vector>

#include "src/model/params.h"

namespace perigee {

// Several GPUs add up a gradient in parts of so many bytes: large enough for links between GPUs, small enough to begin early.
inline constexpr size_t kGroupBucket = size_t{16} << 20;

// Buckets of about so many bytes, whole windows each, in the order in which backward finishes them. They cover the block.
std::vector<Optimizer::Range> cut_block(const Params& params, size_t bytes);

}  // namespace perigee
