// The instruction set that kernels of the host may use.
#pragma once

#include "kernels/kernel.h"

namespace perigee {

Isa host_isa();  // the best that this CPU and PERIGEE_ISA (baseline, avx2, avx512) allow
const char* isa_name(Isa isa);

}  // namespace perigee
