// The `params` of an update_* call on a device: one call updates all windows of a block.
//   in 0   gradient [E]
//   out 0  parameters [E], read and written
//   out 1… the rule's states [E], read and written
//   out 4  the parameters in bf16 or f16 [E], written, all of them (kUpdateHalves); what there is not of out 1… then has no data
// These are whole blocks on 64-byte borders, the gaps between windows included. `params` is the device's address of a CudaUpdate with its
// windows behind it, read when the kernel runs, so that a captured graph sees new learning rates. Bit-equal to the host.
#pragma once

#include <cstdint>

#include "kernels/ops/update.h"

namespace perigee {

inline constexpr int kUpdateHalves = 4;

struct CudaUpdateWindow {
  int64_t begin = 0, end = 0;  // elements of the block; begin is a multiple of 16
  UpdateParams params;
};

struct CudaUpdate {
  int32_t skip = 0;     // not 0: nothing is done (a loss or gradient was not finite)
  int32_t windows = 0;  // in ascending order; what lies in none of them stays as it is
  int64_t skipped = 0;  // steps that the host knew to be skipped when it wrote this (f16)
  // CudaUpdateWindow[windows] follows; in f16 as many again, for one step more that was skipped.
};
static_assert(sizeof(CudaUpdate) % alignof(CudaUpdateWindow) == 0);

}  // namespace perigee
