// Blocks of small integers with one scale each: int8, int4, int2, sign. A thread block makes one block of codes: the values lie in shared
// memory from the first pass (v, its largest or its mean) to the second (codes, residual), so device memory is read once. A thread makes
// whole bytes: byte j of h holds elements j, j + h, ..., so neighbours read neighbours. Bytes moved for n elements, at least: 8n with
// feedback (else 4n) for the largest magnitude, then 12n (4n) + n * bits / 8; to decode, n * bits / 8 and 8n for the sum.
#include "kernels/cuda/codec/codec_common.cuh"

namespace perigee {
namespace {

struct Codes {
  std::byte* scales;
  std::byte* codes;
  CudaEncoded record;  // no bytes: they are part of a body, which has a record of its own
};

// Shared memory of one block. No template declares it, so that the host's shim can fill it with garbage (kernels/cuda/README.md).
struct Shared {
  float v[kMaxBlock];
  uint32_t tops[kThreads / kWarp];
  float lanes[kSumLanes];
};

__device__ Shared& shared_memory() {
  __shared__ Shared memory;
  return memory;
}

// In (0, 1), in steps of 2^-16. Eight elements share a block of Philox that each computes: 80 multiplications an element take as long
// as its bytes do.
__device__ float noise(const CudaQuantize& how, uint64_t element) {
  const uint64_t place = element % kNoiseGroup;
  const PhiloxBlock block = philox4x32(codec_noise_counter(element / kNoiseGroup * 16 + place % 32 / 2, how.round), how.key);
  const uint32_t half = block.lane[place / 32] >> (place % 2 * 16) & 0xffffu;
  return (static_cast<float>(half) + 0.5f) * 0x1p-16f;
}

// Sums the magnitudes in kSumLanes lanes, each in order: 16 threads add, the others wait. Enough blocks share a multiprocessor for the
// memory to stay busy.
__device__ float mean_magnitude(Shared& shared, int m) {
  const int self = static_cast<int>(threadIdx.x);
  if (self < kSumLanes) {
    float sum = 0;
    for (int i = self; i < m; i += kSumLanes) sum += fabsf(shared.v[i]);
    shared.lanes[self] = sum;
  }
  __syncthreads();
  float pairs[kSumLanes];
  for (int lane = 0; lane < kSumLanes; ++lane) pairs[lane] = shared.lanes[lane];
  for (int half = kSumLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) pairs[lane] += pairs[lane + half];
  return pairs[0] / static_cast<float>(m);
}

template <int kBits>
constexpr float kTop = (1 << (kBits - 1)) - 1;

// The level of one value; at 1 bit its sign.
template <int kBits>
__device__ float level_of(const CudaQuantize& how, float v, float inverse, uint64_t element) {
  if (kBits == 1 && how.votes && v == 0) return (element + how.round + how.stream) % 2 != 0 ? -1 : 1;
  if constexpr (kBits == 1) return v < 0 ? -1 : 1;
  const float exact = v * inverse;
  const float level = how.stochastic ? floorf(exact + noise(how, element)) : rintf(exact);
  return level < -kTop<kBits> ? -kTop<kBits> : level > kTop<kBits> ? kTop<kBits> : level;
}

template <int kBits>
__device__ float scale_of(const CudaQuantize& how, Shared& shared, int m, uint32_t largest) {
  largest = block_largest(largest, shared.tops);  // has waited: v is complete
  float scale;
  if (how.levels == Levels::mean) {
    const float mean = mean_magnitude(shared, m);
    scale = kBits == 2 ? 1.5f * mean : mean;
  } else {
    scale = float_from_bits(largest) / (kBits == 1 ? 1 : kTop<kBits>);
  }
  return scale < kNoScale ? 0 : scale;
}

template <int kBits>
__global__ void __launch_bounds__(kThreads) quantize_encode_kernel(CudaEncodeCall call, CudaQuantize how, Codes to) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  Shared& shared = shared_memory();
  float* const v = shared.v;
  const int64_t begin = int64_t{blockIdx.x} * how.block;
  const int m = static_cast<int>(min(how.block, call.n - begin)), bytes = (m * kBits + 7) / 8;
  uint32_t top = 0;
  for (int i = static_cast<int>(threadIdx.x); i < m; i += static_cast<int>(blockDim.x)) {
    v[i] = codec_folded(call, begin + i);
    top = max(top, magnitude_bits(v[i]));
  }
  const float scale = scale_of<kBits>(how, shared, m, top), inverse = scale > 0 ? 1 / scale : 0;
  if (threadIdx.x == 0 && !how.votes) write_bytes(to.scales + int64_t{blockIdx.x} * int64_t{sizeof(float)}, scale);
  if (thread_of_grid() == 0 && to.record.bytes > 0) codec_record(call, to.record);
  for (int j = static_cast<int>(threadIdx.x); j < bytes; j += static_cast<int>(blockDim.x)) {
    unsigned byte = 0;
    for (int i = j, shift = 0; i < m; i += bytes, shift += kBits) {
      const float level = level_of<kBits>(how, v[i], inverse, how.first + static_cast<uint64_t>(begin + i));
      const int code = kBits == 1 ? level < 0 : static_cast<int>(level) + static_cast<int>(kTop<kBits>);
      byte |= static_cast<unsigned>(code) << shift;
      if (call.residual) call.residual[begin + i] = v[i] - level * scale;
    }
    to.codes[begin / 8 * kBits + j] = static_cast<std::byte>(byte);
  }
}

// Without scales `scale` is everyone's.
struct CodesToAdd {
  const std::byte* scales;
  const std::byte* codes;
  int64_t count, block;
  float scale;
};

// A thread takes a byte apart.
template <int kBits>
__global__ void __launch_bounds__(kThreads) quantize_decode_add_kernel(CudaDecodeCall call, CodesToAdd from) {
  begin_kernel();
  if (*call.refused != 0) return;
  const int64_t block_bytes = from.block / 8 * kBits;
  for (int64_t at = thread_of_grid(); at < from.count; at += threads_of_grid()) {
    const int64_t index = at / block_bytes, begin = index * from.block;
    const int64_t m = min(from.block, call.n - begin), bytes = (m * kBits + 7) / 8;
    const float scale = from.scales ? read_bytes<float>(from.scales + index * int64_t{sizeof(float)}) : from.scale;
    const unsigned byte = static_cast<unsigned>(from.codes[at]);
    int shift = 0;
    for (int64_t i = at - index * block_bytes; i < m; i += bytes, shift += kBits) {
      const int code = static_cast<int>(byte >> shift & ((1u << kBits) - 1));
      const int level = kBits == 1 ? 1 - 2 * code : code - static_cast<int>(kTop<kBits>);
      call.sum[begin + i] += call.weight * (static_cast<float>(level) * scale);
    }
  }
}

// With 2 bits, code 3 is invalid.
__global__ void __launch_bounds__(kThreads) check_codes2_kernel(const std::byte* codes, int64_t count, uint32_t* refused) {
  begin_kernel();
  for (int64_t at = thread_of_grid(); at < count; at += threads_of_grid()) {
    const unsigned code = static_cast<unsigned>(codes[at]);
    if ((code & code >> 1 & 0x55u) != 0) *refused = 1;
  }
}

using EncodeKernel = void (*)(CudaEncodeCall, CudaQuantize, Codes);
using DecodeKernel = void (*)(CudaDecodeCall, CodesToAdd);

EncodeKernel encode_kernel(int bits) {
  switch (bits) {
    case 1: return quantize_encode_kernel<1>;
    case 2: return quantize_encode_kernel<2>;
    case 4: return quantize_encode_kernel<4>;
    default: return quantize_encode_kernel<8>;
  }
}

DecodeKernel decode_kernel(int bits) {
  switch (bits) {
    case 1: return quantize_decode_add_kernel<1>;
    case 2: return quantize_decode_add_kernel<2>;
    case 4: return quantize_decode_add_kernel<4>;
    default: return quantize_decode_add_kernel<8>;
  }
}

// Four elements a thread, in whole warps.
int threads_for(int64_t block) {
  const int64_t warps = ceil_divide(block, 4 * kWarp);
  return static_cast<int>((warps < kThreads / kWarp ? warps : kThreads / kWarp) * kWarp);
}

int64_t scale_bytes(int64_t n, int64_t block) { return ceil_divide(n, block) * int64_t{sizeof(float)}; }
int64_t code_bytes(int64_t n, int64_t block, int bits) { return n / block * (block / 8 * bits) + ceil_divide(n % block * bits, 8); }

}  // namespace

void codec_write_int8(Launches& on, const CudaEncodeCall& call, int64_t block, std::byte* to) {
  const Codes codes{.scales = to, .codes = to + scale_bytes(call.n, block)};
  on.launch(quantize_encode_kernel<8>, ceil_divide(call.n, block), threads_for(block), call, CudaQuantize{.block = block}, codes);
}

int codec_quantize_encode(const CudaEncodeCall& call, const CudaQuantize& how, CudaStream stream) {
  Launches on(stream);
  const int64_t scales = how.votes ? 0 : scale_bytes(call.n, how.block);
  const CudaEncoded record{.bytes = static_cast<uint64_t>(scales + code_bytes(call.n, how.block, how.bits)),
                           .variant = static_cast<uint32_t>(how.bits),
                           .detail = static_cast<uint32_t>(how.block) | (how.votes ? kVotes : 0)};
  codec_begin(on, call);
  on.launch(encode_kernel(how.bits), ceil_divide(call.n, how.block), threads_for(how.block), call, how,
            Codes{.scales = call.body, .codes = call.body + scales, .record = record});
  return on.status();
}

void codec_add_codes2(Launches& on, const CudaDecodeCall& call, int64_t block, float scale) {
  const CodesToAdd codes{.scales = nullptr, .codes = call.body, .count = code_bytes(call.n, block, 2), .block = block, .scale = scale};
  on.launch(check_codes2_kernel, blocks_for(codes.count), kThreads, codes.codes, codes.count, call.refused);
  on.launch(quantize_decode_add_kernel<2>, blocks_for(codes.count), kThreads, call, codes);
}

int codec_quantize_decode_add(const CudaDecodeCall& call, const CudaQuantize& how, CudaStream stream) {
  Launches on(stream);
  const int64_t blocks = how.votes ? 0 : ceil_divide(call.n, how.block);
  const CodesToAdd codes{.scales = how.votes ? nullptr : call.body,
                         .codes = call.body + blocks * int64_t{sizeof(float)},
                         .count = code_bytes(call.n, how.block, how.bits),
                         .block = how.block,
                         .scale = 1};
  on.zero(call.refused, sizeof *call.refused);
  codec_check_scales(on, call.body, blocks, call.refused);
  if (how.bits == 2) on.launch(check_codes2_kernel, blocks_for(codes.count), kThreads, codes.codes, codes.count, call.refused);
  on.launch(decode_kernel(how.bits), blocks_for(codes.count), kThreads, call, codes);
  return on.status();
}

}  // namespace perigee
