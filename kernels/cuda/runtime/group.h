// Sums over the GPUs of one process, by NCCL. No CUDA header is needed to include it.
//
// A group is driven by one thread. What it adds up is queued on a stream of each GPU and may be captured, each GPU's part in that GPU's own
// graph; such graphs go before the group does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// One sum: `at[i]` is GPU i's buffer, which gets the sum of all. Of i64 it is the maximum.
struct CudaGroupSum {
  void* const* at = nullptr;
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;  // f32, f64 or i64
};

// Functions that return a text give null, or what NCCL said; the text lasts until the next call.
struct CudaGroups {
  // Why there can be none on this machine; null: there can.
  const char* (*missing)() = nullptr;
  bool (*can_be_captured)() = nullptr;  // since NCCL 2.9
  const char* (*open)(const int* devices, int count, void** group) = nullptr;
  // Waits at most cuda_patience_s() (patience.h) for GPUs and the links between them; after that it leaks the group and its memory.
  const char* (*close)(void* group) = nullptr;
  // Makes what is queued end wherever it stands; then only close() is allowed.
  void (*abort)(void* group) = nullptr;
  const char* (*failed)(void* group) = nullptr;  // beside what a call said: a link that broke
  // One call for all sums, so that they travel together; streams[i] is GPU i's. The first of so many elements makes links, and has as long.
  const char* (*sum)(void* group, const CudaGroupSum* sums, int count, void* const* streams) = nullptr;
};

// The table of the module.
const CudaGroups& cuda_groups();

}  // namespace perigee
