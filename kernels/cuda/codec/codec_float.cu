// Numbers in 32 or 16 bits each, one thread an element. Bytes moved for n elements, at least: 8n with feedback (else 4n) for the largest
// magnitude, then 4n + 2n (4n) without and 12n + 2n (4n) with feedback; to decode, 2n (4n) for the check and 10n (12n) for the sum.
#include "kernels/cuda/codec/codec_common.cuh"

namespace perigee {
namespace {

struct Fp32 {
  using Word = uint32_t;
  static constexpr uint32_t kExponent = 0x7f800000u;
  __device__ static Word narrow(float x) { return bits_from_float(x); }
  __device__ static float widen(Word word) { return float_from_bits(word); }
};

struct Bf16 {
  using Word = uint16_t;
  static constexpr uint32_t kExponent = 0x7f80u;
  __device__ static Word narrow(float x) { return bf16_from_float(x); }
  __device__ static float widen(Word word) { return float_from_bf16(word); }
};

struct Fp16 {
  using Word = uint16_t;
  static constexpr uint32_t kExponent = 0x7c00u;
  __device__ static Word narrow(float x) { return f16_from_float(x); }
  __device__ static float widen(Word word) { return float_from_f16(word); }
};

__global__ void __launch_bounds__(kThreads) largest_kernel(CudaEncodeCall call) {
  begin_kernel();
  __shared__ uint32_t room[kThreads / kWarp];
  uint32_t top = 0;
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) top = max(top, magnitude_bits(codec_folded(call, i)));
  top = block_largest(top, room);
  if (threadIdx.x == 0) atomicMax(&call.encoded->largest, top);
}

__global__ void __launch_bounds__(kThreads) fold_kernel(CudaEncodeCall call) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) call.residual[i] = codec_folded(call, i);
}

template <class Format>
__global__ void __launch_bounds__(kThreads) float_encode_kernel(CudaEncodeCall call) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  using Word = typename Format::Word;
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) {
    const float v = codec_folded(call, i);
    const Word word = Format::narrow(v);
    write_bytes(call.body + i * int64_t{sizeof(Word)}, word);
    if (call.residual) call.residual[i] = v - Format::widen(word);
  }
  if (thread_of_grid() == 0) call.encoded->bytes = static_cast<uint64_t>(call.n) * sizeof(Word);
}

template <class Format>
__global__ void __launch_bounds__(kThreads) check_finite_kernel(const std::byte* in, int64_t n, uint32_t* refused) {
  begin_kernel();
  using Word = typename Format::Word;
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
    if ((read_bytes<Word>(in + i * int64_t{sizeof(Word)}) & Format::kExponent) == Format::kExponent) *refused = 1;
}

__global__ void __launch_bounds__(kThreads) check_scales_kernel(const std::byte* in, int64_t n, uint32_t* refused) {
  begin_kernel();
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const float scale = read_bytes<float>(in + i * int64_t{sizeof(float)});
    if (!(scale >= 0 && scale <= kLargestScale)) *refused = 1;
  }
}

template <class Format>
__global__ void __launch_bounds__(kThreads) float_decode_add_kernel(CudaDecodeCall call) {
  begin_kernel();
  if (*call.refused != 0) return;
  using Word = typename Format::Word;
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid())
    call.sum[i] += call.weight * Format::widen(read_bytes<Word>(call.body + i * int64_t{sizeof(Word)}));
}

template <class Format>
int encode(const CudaEncodeCall& call, CudaStream stream) {
  Launches on(stream);
  codec_begin(on, call);
  on.launch(float_encode_kernel<Format>, blocks_for(call.n), kThreads, call);
  return on.status();
}

template <class Format>
int decode_add(const CudaDecodeCall& call, CudaFloat format, CudaStream stream) {
  Launches on(stream);
  on.zero(call.refused, sizeof *call.refused);
  codec_check_finite(on, call.body, call.n, format, call.refused);
  on.launch(float_decode_add_kernel<Format>, blocks_for(call.n), kThreads, call);
  return on.status();
}

}  // namespace

void codec_begin(Launches& on, const CudaEncodeCall& call) {
  on.zero(call.encoded, sizeof *call.encoded);
  on.launch(largest_kernel, blocks_for(call.n), kThreads, call);
}

void codec_fold(Launches& on, const CudaEncodeCall& call) {
  if (call.residual) on.launch(fold_kernel, blocks_for(call.n), kThreads, call);
}

void codec_check_finite(Launches& on, const std::byte* in, int64_t n, CudaFloat format, uint32_t* refused) {
  auto* const kernel = format == CudaFloat::fp32   ? check_finite_kernel<Fp32>
                       : format == CudaFloat::bf16 ? check_finite_kernel<Bf16>
                                                   : check_finite_kernel<Fp16>;
  on.launch(kernel, blocks_for(n), kThreads, in, n, refused);
}

void codec_check_scales(Launches& on, const std::byte* in, int64_t n, uint32_t* refused) {
  on.launch(check_scales_kernel, blocks_for(n), kThreads, in, n, refused);
}

int codec_float_encode(const CudaEncodeCall& call, CudaFloat format, CudaStream stream) {
  switch (format) {
    case CudaFloat::fp32: return encode<Fp32>(call, stream);
    case CudaFloat::bf16: return encode<Bf16>(call, stream);
    default: return encode<Fp16>(call, stream);
  }
}

int codec_float_decode_add(const CudaDecodeCall& call, CudaFloat format, CudaStream stream) {
  switch (format) {
    case CudaFloat::fp32: return decode_add<Fp32>(call, format, stream);
    case CudaFloat::bf16: return decode_add<Bf16>(call, format, stream);
    default: return decode_add<Fp16>(call, format, stream);
  }
}

}  // namespace perigee
