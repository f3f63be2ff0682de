// Filling and copying views, for kernels that are made of it.
#pragma once

#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/kernel.h"

namespace perigee {

// out = value, or out += value.
void fill_view(Launches& on, const View& out, double value, bool accumulate);
// out = in, or out += in, of one shape and dtype.
void copy_view(Launches& on, const View& in, const View& out, bool accumulate);
// The same for any dtypes, each element in the type that holds the input's. The walk is over (in, out).
void cast_elements(Launches& on, const View& in, const View& out, const Walk<2>& walk, bool accumulate);

}  // namespace perigee
