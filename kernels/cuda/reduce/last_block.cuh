// Sums whose parts several blocks make: the block that is done last adds them up, in the order of their numbers and not of their arrival, so
// that a sum needs one launch and its bits do not depend on timing.
//
// Why the last block sees all parts: each block's threads write theirs with ordinary stores. The barrier puts these before what thread 0
// does next, and its fence, which holds for what it has observed and not for its own stores alone, puts them before its increment for the
// whole device. Increments of one word have an order, and the last block has read what all others wrote there; the second fence and the
// second barrier put that before the reads of all its threads. These go by way of L2 (`__ldcg`): a line that the multiprocessor's L1 kept
// from before the parts were written would be old, and no fence of others reaches it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace perigee {

// Whether the block is the last of `blocks` to come here. All its threads call it, for a counter at most once in a kernel. `counter` is one of the queue's,
// of these blocks alone; the last increment takes it back to zero, so that the next launch finds it as this one did.
static __device__ inline bool last_to_finish(uint32_t* counter, int64_t blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto highest = static_cast<unsigned>(blocks - 1);
    __threadfence();
    last = atomicInc(counter, highest) == highest;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace perigee
