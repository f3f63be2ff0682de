// The kernel for those who run one op by themselves, outside a plan: updates, outer steps.
#pragma once

#include <string_view>

#include "kernels/kernel.h"

namespace perigee {

// Among the host's kernels that take the call, the fastest kind and the widest instruction set up to `isa`; null: there is none.
const Kernel* widest_kernel(std::string_view op, const KernelCall& like, Isa isa);

}  // namespace perigee
