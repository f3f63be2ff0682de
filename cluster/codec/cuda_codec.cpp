#include "cluster/codec/cuda_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/codec/quantized.h"
#include "cluster/codec/sparse.h"
#include "cluster/codec/value_list.h"
#include "kernels/half.h"

namespace perigee {
namespace {

int64_t integer(const Json& options, const char* name) { return options.find(name)->as_int(); }
double number(const Json& options, const char* name) { return options.find(name)->as_number(); }
bool is(const Json& options, const char* name, const char* value) { return options.find(name)->as_string() == value; }

class CudaFloatCodec final : public CudaCodec {
 public:
  CudaFloatCodec(const Codec& codec, const CudaCodecs& kernels, CudaFloat format) : CudaCodec(codec, kernels), format_(format) {}

  size_t scratch_bytes(const CodecSegment&) const override { return 0; }
  int encode(const CudaCodecEncode& call, CudaStream on) const override { return kernels().float_encode(encode_call(call), format_, on); }

 protected:
  std::optional<int> decode_body(const PayloadHeader& header, int64_t, const CudaDecodeCall& call, const CodecSegment&,
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
    how_.levels = bits <= 2 && is(options, "scale", "mean") ? Levels::mean : Levels::largest;
    how_.votes = bits == 1 && is(options, "scale", "one");
  }

  size_t scratch_bytes(const CodecSegment&) const override { return 0; }
  int encode(const CudaCodecEncode& call, CudaStream on) const override {
    CudaQuantize how = how_;
    how.key = philox_key(call.seed, call.stream);
    how.round = call.round, how.first = static_cast<uint64_t>(call.segment.first), how.stream = call.stream;
    return kernels().quantize_encode(encode_call(call), how, on);
  }

 protected:
  // There is one size: that of the bound.
  std::optional<int> decode_body(const PayloadHeader& header, int64_t, const CudaDecodeCall& call, const CodecSegment& segment,
                                 CudaStream on) const override {
    const uint32_t detail = static_cast<uint32_t>(how_.block) | (how_.votes ? kVotes : 0);
    if (header.variant != how_.bits || header.detail != detail) return std::nullopt;
    if (static_cast<size_t>(call.bytes) + kPayloadHeader != bound(segment)) return std::nullopt;
    return kernels().quantize_decode_add(call, how_, on);
  }

 private:
  CudaQuantize how_;
};

class CudaThresholdCodec final : public CudaCodec {
 public:
  CudaThresholdCodec(const Codec& codec, const CudaCodecs& kernels, const Json& options) : CudaCodec(codec, kernels) {
    const bool range = is(options, "adapt", "range"), target = is(options, "adapt", "target");
    how_.tau = static_cast<float>(number(options, "tau"));
    how_.low = range ? static_cast<float>(number(options, "min_share")) : target ? static_cast<float>(number(options, "target")) : 0;
    how_.high = range ? static_cast<float>(number(options, "max_share")) : target ? static_cast<float>(number(options, "target")) : 1;
    how_.rate = number(options, "rate");
    how_.int32 = is(options, "indices", "int32");
    how_.smallest = kSmallestTau, how_.top = kLargestTau;
    clip_ = codec.feedback() ? static_cast<float>(number(options, "clip")) : 0;
    clip_every_ = static_cast<uint64_t>(integer(options, "clip_every"));
  }

  size_t scratch_bytes(const CodecSegment& segment) const override { return kernels().threshold_scratch(segment.count); }
  int encode(const CudaCodecEncode& call, CudaStream on) const override {
    CudaThreshold how = how_;
    how.clip = call.round > 0 && call.round % clip_every_ == 0 ? clip_ : 0;
    how.state = call.state, how.next = call.next;
    return kernels().threshold_encode(encode_call(call), how, on);
  }

 protected:
  std::optional<int> decode_body(const PayloadHeader& header, int64_t, const CudaDecodeCall& call, const CodecSegment&,
                                 CudaStream on) const override {
    const float tau = float_from_bits(header.detail);
    if (!(tau >= kSmallestTau && tau <= kLargestTau)) return std::nullopt;
    if (header.variant == kTauBitmap) {
      if (call.bytes != static_cast<int64_t>(code_bytes(call.n, kTauBlock, 2))) return std::nullopt;
    } else {
      const int64_t list = call.bytes - 8;
      if (header.variant != (how_.int32 ? kTauInt32 : kTauGaps) || list < 0 || (how_.int32 && list % 4 != 0)) return std::nullopt;
    }
    return kernels().threshold_decode_add(call, header.variant, tau, on);
  }

 private:
  CudaThreshold how_;
  float clip_ = 0;
  uint64_t clip_every_ = 1;
};

CudaValues values_of(const Json& options) {
  return is(options, "values", "fp32") ? CudaValues::fp32 : is(options, "values", "bf16") ? CudaValues::bf16 : CudaValues::int8;
}

class CudaTopKCodec final : public CudaCodec {
 public:
  CudaTopKCodec(const Codec& codec, const CudaCodecs& kernels, const Json& options)
      : CudaCodec(codec, kernels),
        count_(integer(options, "count")),
        share_(*options.find("share"), "share"),
        values_(values_of(options)) {}

  size_t scratch_bytes(const CodecSegment& segment) const override { return kernels().topk_scratch(segment.count, most(segment.count)); }
  int encode(const CudaCodecEncode& call, CudaStream on) const override {
    return kernels().topk_encode(encode_call(call), {.k = chosen(call.segment.count, call.when), .values = values_}, on);
  }

 protected:
  std::optional<int> decode_body(const PayloadHeader& header, int64_t count, const CudaDecodeCall& call, const CodecSegment&,
                                 CudaStream on) const override {
    if (header.variant != static_cast<uint16_t>(values_) || header.detail != 0) return std::nullopt;
    if (scheduled() ? count < 1 || count > call.n : count != most(call.n)) return std::nullopt;
    const ValueList list(static_cast<ValueList::Format>(values_));
    if (call.bytes < int64_t{sizeof count} + static_cast<int64_t>(list.bytes(count))) return std::nullopt;
    return kernels().topk_decode_add(call, {.k = count, .values = values_}, on);
  }

 private:
  bool scheduled() const { return count_ == 0 && !share_.fixed(); }
  int64_t chosen(int64_t n, const StepProgress& when) const { return chosen_elements(count_, share_.at(when), n); }
  int64_t most(int64_t n) const { return scheduled() ? n : chosen(n, {}); }

  int64_t count_;
  Schedule share_;
  CudaValues values_;
};

class CudaRandomKCodec final : public CudaCodec {
 public:
  CudaRandomKCodec(const Codec& codec, const CudaCodecs& kernels, const Json& options)
      : CudaCodec(codec, kernels),
        count_(integer(options, "count")),
        share_(number(options, "share")),
        unbiased_(options.find("unbiased")->as_bool()),
        values_(values_of(options)) {}

  size_t scratch_bytes(const CodecSegment& segment) const override { return kernels().randomk_scratch(how(segment).k); }
  int encode(const CudaCodecEncode& call, CudaStream on) const override {
    CudaRandomK how = this->how(call.segment);
    how.seed = call.seed, how.round = call.round;
    return kernels().randomk_encode(encode_call(call), how, on);
  }

 protected:
  // There is one size: that of the bound.
  std::optional<int> decode_body(const PayloadHeader& header, int64_t, const CudaDecodeCall& call, const CodecSegment& segment,
                                 CudaStream on) const override {
    if (header.variant != static_cast<uint16_t>(values_) || header.detail != 0) return std::nullopt;
    if (static_cast<size_t>(call.bytes) + kPayloadHeader != bound(segment)) return std::nullopt;
    return kernels().randomk_decode_add(call, how(segment), on);
  }

 private:
  CudaRandomK how(const CodecSegment& segment) const {
    CudaRandomK how{.k = chosen_elements(count_, share_, segment.count), .first = static_cast<uint64_t>(segment.first), .values = values_};
    if (unbiased_) how.factor = static_cast<float>(static_cast<double>(segment.count) / static_cast<double>(how.k));
    return how;
  }

  int64_t count_;
  double share_;
  bool unbiased_;
  CudaValues values_;
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

bool CudaCodec::decode_add(std::span<const std::byte> start, size_t payload_bytes, const CudaCodecDecode& call, CudaStream on,
                           int* status) const {
  PayloadHeader header;
  int64_t count = 0;
  *status = 0;
  if (payload_bytes < sizeof header || payload_bytes > codec_.bound(call.segment)) return false;
  assert(start.size() == std::min(payload_bytes, kStart));
  std::memcpy(&header, start.data(), sizeof header);
  if (start.size() == kStart) std::memcpy(&count, start.data() + sizeof header, sizeof count);
  const auto elements = static_cast<uint64_t>(call.segment.count);
  if (header.format != codec_.def().format || header.version != 1 || header.elements != elements) return false;
  if (elements == 0) return payload_bytes == sizeof header && header.variant == 0 && header.detail == 0;
  const std::optional<int> queued = decode_body(header, count,
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
  if (number(options, "momentum") > 0 || number(options, "clip_norm") > 0) return *why = "momentum and clip_norm work on the host", nullptr;
  if (name == "fp32") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::fp32);
  if (name == "bf16") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::bf16);
  if (name == "fp16") return std::make_unique<CudaFloatCodec>(codec, kernels, CudaFloat::fp16);
  if (name == "int8") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 8, options);
  if (name == "int4") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 4, options);
  if (name == "int2") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 2, options);
  if (name == "sign") return std::make_unique<CudaQuantizedCodec>(codec, kernels, 1, options);
  if (name == "threshold") return std::make_unique<CudaThresholdCodec>(codec, kernels, options);
  if (name == "topk") return std::make_unique<CudaTopKCodec>(codec, kernels, options);
  if (name == "randomk") return std::make_unique<CudaRandomKCodec>(codec, kernels, options);
  return *why = name + " has no kernels for CUDA", nullptr;
}

}  // namespace perigee
