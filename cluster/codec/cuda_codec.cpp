#include "cluster/codec/cuda_codec.h"

#include <cassert>
#include <cstring>

#include "kernels/half.h"

namespace perigee {
namespace {

int64_t integer(const Json& options, const char* name) { return options.find(name)->as_int(); }
bool is(const Json& options, const char* name, const char* value) { return options.find(name)->as_string() == value; }

class CudaFloatCodec final : public CudaCodec {
 public:
  CudaFloatCodec(const Codec& codec, const CudaCodecs& kernels, CudaFloat format) : CudaCodec(codec, kernels), format_(format) {}

  size_t scratch_bytes(const CodecSegment&) const override { return 0; }
  int encode(const CudaCodecEncode& call, CudaStream on) const override { return kernels().float_encode(encode_call(call), format_, on); }

 protected:
  std::optional<int> decode_body(const PayloadHeader& header, const CudaDecodeCall& call, const CodecSegment&,
                                 CudaStream on) const override {
    if (header.variant != 0 || header.detail != 0 || call.bytes != call.n * (format_ == CudaFloat::fp32 ? 4 : 2)) return std::nullopt;
    return kernels().float_decode_add(call, format_, on);
  }

 private:
  CudaFloat format_;
};

class CudaQuantizedCodec final : public CudaCodec {
 public:
  CudaQuantizedCodec(const Codec& codec, const CudaCodecs& kernels, int bits, const Json& options) : CudaCodec(codec, kernels) {
    how_.bits = bits;
    how_.block = integer(options, "block");
    how_.stochastic = bits > 1 && is(options, "rounding", "stochastic");
    how_.levels = bits == 1 || (bits == 2 && is(options, "scale", "mean")) ? Levels::mean : Levels::largest;
  }

  size_t scratch_bytes(const CodecSegment&) const override { return 0; }
  int encode(const CudaCodecEncode& call, CudaStream on) const override {
    CudaQuantize how = how_;
    how.key = philox_key(call.seed, call.stream);
    how.round = call.round, how.first = static_cast<uint64_t>(call.segment.first);
    return kernels().quantize_encode(encode_call(call), how, on);
  }

 protected:
  // There is one size: that of the bound.
  std::optional<int> decode_body(const PayloadHeader& header, const CudaDecodeCall& call, const CodecSegment& segment,
                                 CudaStream on) const override {
    if (header.variant != how_.bits || header.detail != static_cast<uint32_t>(how_.block)) return std::nullopt;
    if (static_cast<size_t>(call.bytes) + kPayloadHeader != bound(segment)) return std::nullopt;
    return kernels().quantize_decode_add(call, how_, on);
  }

 private:
  CudaQuantize how_;
};

}  // namespace

CudaEncodeCall CudaCodec::encode_call(const CudaCodecEncode& call) const {
  assert((call.residual != nullptr) == codec_.feedback() && call.segment.count > 0);
  return {.x = call.values,
          .residual = call.residual,
          .decay = codec_.decay(),
          .n = call.segment.count,
          .limit = bits_from_float(codec_.limit()),
          .scratch = call.scratch,
          .body = call.body,
          .encoded = call.encoded};
}

size_t CudaCodec::finish(const CudaEncoded& encoded, const CodecSegment& segment, std::span<std::byte, kPayloadHeader> header) const {
  if (segment.count > 0 && encoded.largest > bits_from_float(codec_.limit())) return 0;
  PayloadHeader filled{.format = codec_.def().format, .elements = static_cast<uint64_t>(segment.count)};
  size_t body = 0;
  if (segment.count > 0) {
    filled.variant = static_cast<uint16_t>(encoded.variant), filled.detail = encoded.detail;
    body = encoded.bytes;
  }
  std::memcpy(header.data(), &filled, sizeof filled);
  assert(kPayloadHeader + body <= codec_.bound(segment));
  return kPayloadHeader + body;
}

size_t CudaCodec::bound(const CodecSegment& segment) const { return codec_.bound(segment); }

bool CudaCodec::decode_add(std::span<const std::byte, kPayloadHeader> bytes, size_t payload_bytes, const CudaCodecDecode& call,
                           CudaStream on, int* status) const {
  PayloadHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  *status = 0;
  if (payload_bytes < sizeof header || payload_bytes > codec_.bound(call.segment)) return false;
  if (header.format != codec_.def().format || header.version != 1 || header.elements != static_cast<uint64_t>(call.segment.count))
    return false;
  if (call.segment.count == 0) return payload_bytes == sizeof header && header.variant == 0 && header.detail == 0;
  const std::optional<int> queued = decode_body(header,
                                                {.body = call.body,
                                                 .bytes = static_cast<int64_t>(payload_bytes - sizeof header),
                                                 .weight = call.weight,
                                                 .n = call.segment.count,
                                                 .sum = call.sum,
                                                 .scratch = call.scratch,
                                                 .refused = call.refused},
                                                call.segment, on);
  *status = queued.value_or(0);
  return queued.has_value();
}

std::unique_ptr<CudaCodec> make_cuda_codec(const Codec& codec, const CudaCodecs& kernels, std::string* why) {
  const std::string name = codec.def().name;
  const Json options = codec.to_json();
  if (integer(options, "zstd") > 0) return *why = "zstd compresses on the host", nullptr;
  if (name == "fp32") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::fp32);
  if (name == "bf16") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::bf16);
  if (name == "fp16") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::fp16);
  if (name == "int8") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 8, options);
  if (name == "int4") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 4, options);
  if (name == "int2") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 2, options);
  if (name == "sign") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 1, options);
  return *why = name + " has no kernels for CUDA", nullptr;
}

}  // namespace perigee
