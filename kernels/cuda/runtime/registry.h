// The table of all CUDA kernels of ops, generated from the lists of files in kernels/cuda/meson.build. It is a part of the module.
#pragma once

#include <span>

#include "kernels/registry.h"

namespace perigee {

std::span<const KernelList> cuda_kernel_lists();

}  // namespace perigee
