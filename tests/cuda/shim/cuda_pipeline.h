// Stands in for CUDA's header of this name. A copy arrives when its thread waits and no sooner; until then there is rubbish, so that a wait
// that is missing shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/cuda/shim/cuda_runtime.h"

namespace shim {

struct Copy {
  uint32_t* to;
  const uint32_t* from;
};
inline std::vector<Copy> copies[1024];  // of each thread of the block

}  // namespace shim

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  auto* const words = static_cast<uint32_t*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint32_t); ++i) {
    words[i] = 0xffc0ffee;
    shim::copies[threadIdx.x].push_back({words + i, static_cast<const uint32_t*>(from) + i});
  }
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {
  for (const shim::Copy& copy : std::exchange(shim::copies[threadIdx.x], {})) *copy.to = *copy.from;
}
