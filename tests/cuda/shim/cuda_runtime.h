// Stands in for CUDA's <cuda_runtime.h> where kernels are compiled as C++ for the host (tests/cuda): blocks run one after another, the
// threads of a block are fibers that run until they wait for each other, so that a test chooses their order (shim.h). No more is here
// than the kernels use. Shared memory is static and holds rubbish at the start of each block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#define __global__
#define __device__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#define __shared__ [[gnu::section("shim_shared")]] static

struct dim3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  unsigned x, y, z;
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the fiber that runs

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

#include "tests/cuda/shim/runtime.h"

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  const cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

namespace shim {

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);
// One __syncthreads of the source.
struct Barrier {
  Barrier(const char* file, int line);
  std::string name;  // "file:line"
  bool left_out = false;
};
void wait_for_block(const Barrier& barrier);
// Waits until all lanes of the mask have given their value; those of all lanes are returned.
const uint64_t* exchange(unsigned mask, uint64_t value, const char* operation);
int lane();
// The running thread waits for the kernels before its own. A kernel that ends without this wait, in any launch, ends the test.
void wait_for_earlier();
bool has_waited();

template <class T>
uint64_t bits_of(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T value_of(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace shim

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Actual... arguments) {
  if (config->gridDim.x == 0 || config->blockDim.x == 0 || config->blockDim.x > 1024 || config->dynamicSmemBytes != 0)
    return cudaErrorInvalidValue;
  const dim3 grid = config->gridDim, block = config->blockDim;
  const bool overlaps = config->numAttrs > 0 && config->attrs->id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                        config->attrs->val.programmaticStreamSerializationAllowed != 0;
  return shim::enqueue_own(config->stream, overlaps, [=] { shim::run_grid(grid, block, [&] { kernel(arguments...); }); });
}

#define __syncthreads()                                  \
  shim::wait_for_block([]() -> const shim::Barrier& {    \
    static const shim::Barrier here(__FILE__, __LINE__); \
    return here;                                         \
  }())

inline void __syncwarp(unsigned mask = 0xffffffffu) { shim::exchange(mask, 0, "__syncwarp"); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const uint64_t* given = shim::exchange(mask, predicate != 0, "__ballot_sync");
  unsigned set = 0;
  for (unsigned lane = 0; lane < 32; ++lane) set |= (mask >> lane & 1u) != 0 && given[lane] != 0 ? 1u << lane : 0u;
  return set;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  return shim::value_of<T>(shim::exchange(mask, shim::bits_of(value), "__shfl_sync")[from & 31]);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step) {
  const uint64_t* given = shim::exchange(mask, shim::bits_of(value), "__shfl_up_sync");
  const int from = shim::lane() - static_cast<int>(step);
  return from < 0 ? value : shim::value_of<T>(given[from]);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with) {
  return shim::value_of<T>(shim::exchange(mask, shim::bits_of(value), "__shfl_xor_sync")[shim::lane() ^ with]);
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  const uint64_t* given = shim::exchange(mask, value, "__reduce_max_sync");
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1u) != 0) value = std::max(value, static_cast<unsigned>(given[lane]));
  return value;
}

template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  *to = std::max(before, value);
  return before;
}

inline unsigned atomicInc(unsigned* to, unsigned highest) {
  const unsigned before = *to;
  *to = before >= highest ? 0 : before + 1;
  return before;
}

inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() { shim::wait_for_earlier(); }

inline void __threadfence() {}
template <class T>
T __ldcg(const T* from) {
  return *from;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

// CUDA has these outside any namespace, for mixed types too.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
