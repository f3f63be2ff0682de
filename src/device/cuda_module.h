// The CUDA module of this build (kernels/cuda/runtime/module.h), loaded when it is first asked for.
#pragma once

#include <string>

#include "kernels/cuda/runtime/module.h"

namespace perigee {

// Null where there is none, or none of this build; `why` says so and where it was looked for: in $PERIGEE_CUDA_MODULE where that is set,
// else beside the library or program that this code is part of.
const CudaModule* cuda_module(std::string* why);

}  // namespace perigee
