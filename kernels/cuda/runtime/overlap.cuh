// Kernels of ours that follow one another in a captured graph overlap: the later is resident, and past what every launch costs, when the
// earlier ends (programmatic dependent launch, compute capability 9.0 and later). overlap.h says which launches may.
#pragma once

#include <cuda_runtime.h>

namespace perigee {

// The first statement of every kernel, in all its threads: the next kernel may come in as soon as all blocks of this one have begun, and
// this one goes on when all that came before it is done.
//
// Why that is enough. The wait ends when the kernel before has ended, all its blocks, and its writes are seen. That kernel had itself
// waited for the one before it, and so on back to one that was launched without overlap, which began after all before it had ended: a
// kernel touches memory when nothing before it in its stream runs any more. So what holds between kernels without overlap holds with it,
// for reads after writes as for writes after reads, for counters that the last block takes back to zero (last_block.cuh), and for memory
// that kernels use by turns. A kernel that went on without the wait would break that for all that follow it: it could end while what came
// before it still runs. So no thread returns before it, and no access to memory stands before it; what is `const __restrict__`, or read by
// __ldg, the compiler may read ahead of it, and no kernel has such. Nothing waits for ever: a kernel comes in when all blocks of the one
// before it have their place, so that of those that wait the first is always one that runs.
//
// Where code is for less than compute capability 9.0 there is neither, and its kernels are launched without overlap (launch.cuh).
__device__ inline void begin_kernel() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

}  // namespace perigee
