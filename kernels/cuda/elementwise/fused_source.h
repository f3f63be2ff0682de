// CUDA C++ of one `fused` call: its program, sizes, strides and broadcasts written out as constants, for NVRTC. No CUDA header is needed.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace perigee {

struct FusedSource {
  // The definitions of fused_prelude(), then `extern "C" __global__ void NAME(in0, ..., out0, ...)`: pointers alone.
  std::string text;
  int64_t threads = 0;  // to launch, in blocks of any size; surplus threads return
};

// Null when the call can be written as source.
const char* fused_source_declines(const KernelCall& call);
// Operands that lie on borders of four elements are read and written four at a time; their addresses are those of `call`.
FusedSource fused_source(const KernelCall& call, const char* name);
// Definitions that the generated text needs on a device: conversions of 16-bit numbers, and numbers by their bits.
const char* fused_prelude();

}  // namespace perigee
