// A codec whose values, residual and state lie on a CUDA device: the same payloads, residuals and sums, bit for bit, made by the kernels
// of kernels/cuda/codec/codec.h. The header is written and checked here, on the host; the body never leaves the device unless the caller
// copies it. Nothing is waited for: work is queued on the caller's stream.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cluster/codec/codec.h"
#include "kernels/cuda/codec/codec.h"

namespace perigee {

// Every pointer is the device's.
struct CudaCodecEncode {
  CodecSegment segment;
  const float* values = nullptr;
  float* residual = nullptr;  // null exactly when the codec has no feedback
  float* next = nullptr;      // threshold: where what is left over goes, if not over the residual (CudaThreshold::next)
  float* state = nullptr;     // state_floats(segment) of the codec
  uint64_t seed = 0, round = 0, stream = 0;
  StepProgress when = {};
  std::byte* scratch = nullptr;    // scratch_bytes(segment), on a 16-byte border, as is the body
  std::byte* body = nullptr;       // bound(segment) of the codec, less the header
  CudaEncoded* encoded = nullptr;  // what finish() wants to know
};

struct CudaCodecDecode {
  CodecSegment segment;
  const std::byte* body = nullptr;
  float weight = 1;
  float* sum = nullptr;
  std::byte* scratch = nullptr;
  uint32_t* refused = nullptr;  // not 0 when the work is done: the body was refused and the sum is as it was
};

class CudaCodec {
 public:
  virtual ~CudaCodec() = default;

  virtual size_t scratch_bytes(const CodecSegment& segment) const = 0;
  // 0, or the code of the launch that failed. A segment of no elements needs no device: encoded.bytes is 0 then.
  virtual int encode(const CudaCodecEncode& call, CudaStream on) const = 0;
  // From a record that was read back: writes the payload's header and returns the payload's bytes, header included. 0: not encodable, as
  // Codec::encode.
  size_t finish(const CudaEncoded& encoded, const CodecSegment& segment, std::span<std::byte, kPayloadHeader> header) const;
  // `start`, on the host: the first kStart bytes of a payload that came from outside, or all of it. False when they and its size are not
  // what this codec can have made; then nothing was queued.
  static constexpr size_t kStart = kPayloadHeader + sizeof(int64_t);
  bool decode_add(std::span<const std::byte> start, size_t payload_bytes, const CudaCodecDecode& call, CudaStream on, int* status) const;

 protected:
  CudaCodec(const Codec& codec, const CudaCodecs& kernels) : codec_(codec), kernels_(kernels) {}
  const CudaCodecs& kernels() const { return kernels_; }
  size_t bound(const CodecSegment& segment) const;  // of the codec
  CudaEncodeCall encode_call(const CudaCodecEncode& call) const;
  // Nothing when the header or the size is wrong; else the launch's status. `count` is what the first 8 bytes of the body say, 0 where
  // there are fewer.
  virtual std::optional<int> decode_body(const PayloadHeader& header, int64_t count, const CudaDecodeCall& call,
                                         const CodecSegment& segment, CudaStream on) const = 0;

 private:
  const Codec& codec_;
  const CudaCodecs& kernels_;
};

// The device's form of a codec, which must outlive it. Null when it has none; `why` says so.
std::unique_ptr<CudaCodec> make_cuda_codec(const Codec& codec, const CudaCodecs& kernels, std::string* why);

}  // namespace perigee
