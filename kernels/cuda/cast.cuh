// What copy has of cast.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/walk.cuh"
#include "kernels/kernel.h"

namespace perigee {

// out = in, or out += in, each element in its dtype. The walk is over (in, out).
void cast_elements(Launches& on, const KernelCall& call, const Walk<2>& walk);

}  // namespace perigee
