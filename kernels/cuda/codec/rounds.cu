// Bytes moved for n elements: 8n to pack (12n of a difference), 8n to unpack (12n to subtract), 4n to measure (8n) and to hash. All but the
// joining of a hash's parts is bound by that; joining is one chain of multiplications, about 30 cycles for each 1024 bytes.
#include "kernels/cuda/codec/rounds.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {
namespace {

constexpr int kSums = CudaHash::kSums;
constexpr int kJoined = 128;  // blocks whose parts are fetched at once

template <class Call>
__device__ CudaRun run_of(const Call& call, int64_t r) {
  return call.runs ? call.runs[r] : CudaRun{0, 0, call.longest};
}

__global__ void __launch_bounds__(kThreads) pack_kernel(CudaPack call) {
  begin_kernel();
  for (int64_t r = 0; r < call.count; ++r) {
    const CudaRun run = run_of(call, r);
    for (int64_t i = thread_of_grid(); i < run.elements; i += threads_of_grid()) {
      const float value = call.block[run.block + i];
      // 0 + the difference, as the host adds it to a sum: a zero is +0.
      call.packed[run.packed + i] = call.less ? 0.0f + (value - call.less[run.block + i]) : value * call.factor;
    }
  }
}

__global__ void __launch_bounds__(kThreads) unpack_kernel(CudaUnpack call) {
  begin_kernel();
  for (int64_t r = 0; r < call.count; ++r) {
    const CudaRun run = run_of(call, r);
    for (int64_t i = thread_of_grid(); i < run.elements; i += threads_of_grid()) {
      const float value = call.packed[run.packed + i];
      float& to = call.block[run.block + i];
      to = call.subtract ? to - value : value;
    }
  }
}

__global__ void __launch_bounds__(kThreads) squares_kernel(const float* from, const float* less, int64_t n, double* sums) {
  begin_kernel();
  __shared__ double room[kThreads];
  const int64_t begin = blockIdx.x * kSquaresPiece, end = min(n, begin + kSquaresPiece);
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double value = less ? static_cast<double>(from[i]) - static_cast<double>(less[i]) : static_cast<double>(from[i]);
    sum += value * value;
  }
  room[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) room[threadIdx.x] += room[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = room[0];
}

// A thread has one sum of a block: the product of the halves of its own words, and its neighbour's words.
__global__ void __launch_bounds__(kThreads) hash_parts_kernel(CudaHash call) {
  begin_kernel();
  constexpr int kStripes = CudaHash::kBlock / (kSums * sizeof(uint64_t));
  const auto* const words = reinterpret_cast<const uint64_t*>(call.bytes);
  for (int64_t i = thread_of_grid(); i < call.blocks * kSums; i += threads_of_grid()) {
    const int lane = static_cast<int>(i % kSums);
    const uint64_t* const block = words + i / kSums * (kStripes * kSums);
    uint64_t sum = 0;
    for (int stripe = 0; stripe < kStripes; ++stripe) {
      const uint64_t key = block[stripe * kSums + lane] ^ call.secret[stripe + lane];
      sum += (key & 0xffffffffu) * (key >> 32) + block[stripe * kSums + (lane ^ 1)];
    }
    call.parts[i] = sum;
  }
}

// One block: its first warp joins what the others have fetched, while they fetch what comes next.
__global__ void __launch_bounds__(kThreads) hash_join_kernel(CudaHash call) {
  begin_kernel();
  constexpr uint64_t kPrime = 0x9E3779B1u;
  __shared__ uint64_t room[2][kJoined * kSums];
  const int self = static_cast<int>(threadIdx.x), fetchers = static_cast<int>(blockDim.x) - kWarp;
  const int64_t all = call.blocks * kSums;
  uint64_t sum = self < kSums ? call.sums[self] : 0;
  const uint64_t secret = call.secret[CudaHash::kSecretWords - kSums + self % kSums];
  for (int64_t begin = -kJoined * kSums; begin < all; begin += kJoined * kSums) {
    const int64_t next = begin + kJoined * kSums, turn = next / (kJoined * kSums) % 2;
    if (self >= kWarp)
      for (int i = self - kWarp; i < kJoined * kSums && next + i < all; i += fetchers) room[turn][i] = call.parts[next + i];
    if (self < kSums && begin >= 0) {
      const int64_t count = min(static_cast<int64_t>(kJoined), (all - begin) / kSums);
      for (int64_t b = 0; b < count; ++b) {
        sum += room[1 - turn][b * kSums + self];
        sum = ((sum ^ (sum >> 47)) ^ secret) * kPrime;
      }
    }
    __syncthreads();
  }
  if (self < kSums) call.sums[self] = sum;
}

int pack(const CudaPack& call, CudaStream stream) {
  Launches on(stream);
  on.launch(pack_kernel, blocks_for(call.longest), kThreads, call);
  return on.status();
}

int unpack(const CudaUnpack& call, CudaStream stream) {
  Launches on(stream);
  on.launch(unpack_kernel, blocks_for(call.longest), kThreads, call);
  return on.status();
}

int squares(const float* from, const float* less, int64_t n, double* sums, CudaStream stream) {
  Launches on(stream);
  on.launch(squares_kernel, ceil_divide(n, kSquaresPiece), kThreads, from, less, n, sums);
  return on.status();
}

int hash(const CudaHash& call, CudaStream stream) {
  Launches on(stream);
  on.launch(hash_parts_kernel, blocks_for(call.blocks * kSums), kThreads, call);
  on.launch(hash_join_kernel, 1, kThreads, call);
  return on.status();
}

}  // namespace

const CudaRounds& cuda_rounds() {
  static constexpr CudaRounds rounds{.pack = pack, .unpack = unpack, .squares = squares, .hash = hash};
  return rounds;
}

}  // namespace perigee
