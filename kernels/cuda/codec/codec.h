// The codecs on a CUDA device: each makes the body of a payload (cluster/codec/codec.h) from what lies on the device and leaves it there, and
// adds bodies to sums, with the bits of the host's codecs. The header before a body is the host's affair: cluster/codec/cuda_codec.h knows
// which codec takes which of these calls.
//
// Every pointer is the device's. Work is queued on the stream and nothing is waited for; what a call returns is 0 or the code of the
// launch that failed. Bodies and scratch lie on 16-byte borders. An encoder writes nothing but its record, and a decoder nothing but
// `refused`, when the values cannot be encoded or the body is not what an encoder makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec_loops.h"

struct CUstream_st;

namespace perigee {

using CudaStream = CUstream_st*;  // cudaStream_t

// An encoder's report, on the device: read it back before the body, which is `bytes` long when largest <= the call's limit.
struct CudaEncoded {
  uint64_t bytes = 0;
  uint32_t largest = 0;  // bits of the largest magnitude, above those of every number where one is not finite
  uint32_t variant = 0;  // for the payload's header
  uint32_t detail = 0;
};

struct CudaEncodeCall {
  const float* x = nullptr;
  float* residual = nullptr;  // null: no feedback; else v = x + decay * residual is encoded
  float decay = 1;
  int64_t n = 0;
  uint32_t limit = 0;            // bits of the largest magnitude that can be encoded
  std::byte* scratch = nullptr;  // of its family
  std::byte* body = nullptr;
  CudaEncoded* encoded = nullptr;
};

struct CudaDecodeCall {
  const std::byte* body = nullptr;
  int64_t bytes = 0;  // of the body
  float weight = 1;
  int64_t n = 0;
  float* sum = nullptr;  // sum[i] += weight * decoded
  std::byte* scratch = nullptr;
  uint32_t* refused = nullptr;  // not 0 afterwards: the body was refused, the sum is as it was
};

enum class CudaFloat : uint8_t { fp32, bf16, fp16 };

// How chosen values are written one after another: `block` elements of int8 share a scale (cluster/codec/value_list.h).
enum class CudaValues : uint8_t { fp32 = 0, bf16 = 1, int8 = 2 };

struct CudaQuantize {
  int64_t block = 0;
  int bits = 8;
  Levels levels = Levels::largest;
  bool stochastic = false;
  bool votes = false;  // 1 bit and no scale: +1 or -1; a zero takes turns with element, round and stream
  PhiloxKey key = {};
  uint64_t round = 0, first = 0, stream = 0;
};

struct CudaThreshold {
  float tau = 0;                // where state[0] is 0
  float low = 0, high = 0;      // shares between which tau stays
  double rate = 1;              // by which it shrinks below and grows above; 1: never
  bool int32 = false;           // list of int32, else gaps
  float clip = 0;               // > 0: what is left over is cut to so many tau now
  float smallest = 0, top = 0;  // between which tau stays
  float* state = nullptr;       // tau, share that was sent
  // Where what is left over goes, whose content is undefined when the values cannot be encoded; null: over the residual, after one pass more
  // over everything.
  float* next = nullptr;
};

struct CudaTopK {
  int64_t k = 0;
  CudaValues values = CudaValues::fp32;
};

struct CudaRandomK {
  int64_t k = 0;
  uint64_t seed = 0, round = 0, first = 0;  // a decoder takes the first two from the body
  float factor = 1;                         // of what is sent
  CudaValues values = CudaValues::fp32;
};

// One file a family.
struct CudaCodecs {
  int (*float_encode)(const CudaEncodeCall&, CudaFloat, CudaStream) = nullptr;
  int (*float_decode_add)(const CudaDecodeCall&, CudaFloat, CudaStream) = nullptr;
  int (*quantize_encode)(const CudaEncodeCall&, const CudaQuantize&, CudaStream) = nullptr;
  int (*quantize_decode_add)(const CudaDecodeCall&, const CudaQuantize&, CudaStream) = nullptr;
  int (*threshold_encode)(const CudaEncodeCall&, const CudaThreshold&, CudaStream) = nullptr;
  int (*threshold_decode_add)(const CudaDecodeCall&, uint32_t variant, float tau, CudaStream) = nullptr;
  int (*topk_encode)(const CudaEncodeCall&, const CudaTopK&, CudaStream) = nullptr;
  int (*topk_decode_add)(const CudaDecodeCall&, const CudaTopK&, CudaStream) = nullptr;
  int (*randomk_encode)(const CudaEncodeCall&, const CudaRandomK&, CudaStream) = nullptr;
  int (*randomk_decode_add)(const CudaDecodeCall&, const CudaRandomK&, CudaStream) = nullptr;
  // Bytes of scratch; the other families need none.
  size_t (*threshold_scratch)(int64_t n) = nullptr;
  size_t (*topk_scratch)(int64_t n, int64_t k) = nullptr;
  size_t (*randomk_scratch)(int64_t k) = nullptr;
};

// The table of the module (module.h), and what it is made of.
const CudaCodecs& codec_cuda();

int codec_float_encode(const CudaEncodeCall& call, CudaFloat format, CudaStream stream);
int codec_float_decode_add(const CudaDecodeCall& call, CudaFloat format, CudaStream stream);
int codec_quantize_encode(const CudaEncodeCall& call, const CudaQuantize& how, CudaStream stream);
int codec_quantize_decode_add(const CudaDecodeCall& call, const CudaQuantize& how, CudaStream stream);
int codec_threshold_encode(const CudaEncodeCall& call, const CudaThreshold& how, CudaStream stream);
int codec_threshold_decode_add(const CudaDecodeCall& call, uint32_t variant, float tau, CudaStream stream);
int codec_topk_encode(const CudaEncodeCall& call, const CudaTopK& how, CudaStream stream);
int codec_topk_decode_add(const CudaDecodeCall& call, const CudaTopK& how, CudaStream stream);
int codec_randomk_encode(const CudaEncodeCall& call, const CudaRandomK& how, CudaStream stream);
int codec_randomk_decode_add(const CudaDecodeCall& call, const CudaRandomK& how, CudaStream stream);
size_t codec_threshold_scratch(int64_t n);
size_t codec_topk_scratch(int64_t n, int64_t k);
size_t codec_randomk_scratch(int64_t k);

}  // namespace perigee
