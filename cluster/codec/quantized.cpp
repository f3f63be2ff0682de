#include "cluster/codec/quantized.h"

#include <cmath>
#include <cstring>

namespace perigee {
namespace {

class QuantizedCodec final : public Codec {
 public:
  QuantizedCodec(const CodecSetup& setup, int bits, int64_t block, Levels levels, bool stochastic)
      : Codec(setup), bits_(bits), block_(block), levels_(levels), stochastic_(stochastic) {}

  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + body_bytes(segment); }
  double bits_per_element(const CodecSegment&) const override { return bits_ + 32.0 / static_cast<double>(block_); }
  bool keeps_zero() const override { return bits_ > 1; }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    header->variant = static_cast<uint16_t>(bits_);
    header->detail = static_cast<uint32_t>(block_);
    loops().quantize({.x = call.values.data(),
                      .residual = feedback() ? call.residual.data() : nullptr,
                      .decay = decay(),
                      .n = call.segment.count,
                      .block = block_,
                      .bits = bits_,
                      .levels = levels_,
                      .stochastic = stochastic_,
                      .key = philox_key(call.seed, call.stream),
                      .round = call.round,
                      .first = static_cast<uint64_t>(call.segment.first),
                      .scales = body,
                      .codes = body + scale_bytes(call.segment)});
    return body_bytes(call.segment);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    if (header.variant != bits_ || header.detail != static_cast<uint32_t>(block_) || body.size() != body_bytes(segment)) return false;
    const std::byte* codes = body.data() + scale_bytes(segment);
    if (!valid_scales(body.data(), blocks(segment))) return false;
    if (bits_ == 2 && !valid_codes2(codes, body.size() - scale_bytes(segment))) return false;
    loops().dequantize_add(
        {.scales = body.data(), .codes = codes, .n = segment.count, .block = block_, .bits = bits_, .weight = weight, .sum = sum.data()});
    return true;
  }

  void add_options(Json* json) const override {
    json->set("block", block_);
    if (bits_ > 1) json->set("rounding", stochastic_ ? "stochastic" : "nearest");
    if (bits_ <= 2) json->set("scale", levels_ == Levels::mean ? "mean" : "largest");
  }

 private:
  int64_t blocks(const CodecSegment& segment) const { return segment.count / block_ + (segment.count % block_ != 0); }
  size_t scale_bytes(const CodecSegment& segment) const { return static_cast<size_t>(blocks(segment)) * sizeof(float); }
  size_t body_bytes(const CodecSegment& segment) const { return scale_bytes(segment) + code_bytes(segment.count, block_, bits_); }

  int bits_;
  int64_t block_;
  Levels levels_;
  bool stochastic_;
};

// One bit for each element and nothing else: +1 or -1. A zero is neither, so it takes turns: with the element, the round and the worker.
class VoteCodec final : public Codec {
 public:
  VoteCodec(const CodecSetup& setup, int64_t block) : Codec(setup), block_(block) {}

  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + code_bytes(segment.count, block_, 1); }
  double bits_per_element(const CodecSegment&) const override { return 1; }
  bool keeps_zero() const override { return false; }
  // The signs, and scales that are not sent.
  size_t scratch_bytes(const CodecSegment& segment) const override {
    return static_cast<size_t>(segment.count + segment.count / block_ + 1) * sizeof(float);
  }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const auto n = static_cast<size_t>(call.segment.count);
    auto* signs = reinterpret_cast<float*>(call.scratch.data());
    const uint64_t turn = static_cast<uint64_t>(call.segment.first) + call.round + call.stream;
    for (size_t i = 0; i < n; ++i) {
      const float x = call.values[i], tie = (turn + i) % 2 ? -1.0f : 1.0f;
      signs[i] = x == 0 ? tie : std::copysign(1.0f, x);
    }
    header->variant = 1;
    header->detail = static_cast<uint32_t>(block_) | kVotes;
    loops().quantize({.x = signs,
                      .n = call.segment.count,
                      .block = block_,
                      .bits = 1,
                      .levels = Levels::mean,
                      .scales = reinterpret_cast<std::byte*>(signs + n),
                      .codes = body});
    return code_bytes(call.segment.count, block_, 1);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    if (header.variant != 1 || header.detail != (static_cast<uint32_t>(block_) | kVotes)) return false;
    if (body.size() != code_bytes(segment.count, block_, 1)) return false;
    loops().dequantize_add(
        {.codes = body.data(), .scale = 1, .n = segment.count, .block = block_, .bits = 1, .weight = weight, .sum = sum.data()});
    return true;
  }

  void add_options(Json* json) const override { json->set("block", block_), json->set("scale", "one"); }

 private:
  int64_t block_;
};

}  // namespace

bool valid_codes2(const std::byte* codes, size_t bytes) {
  unsigned both = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned code = static_cast<unsigned>(codes[i]);
    both |= code & (code >> 1) & 0x55u;
  }
  return both == 0;
}

bool valid_scales(const std::byte* scales, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float scale;
    std::memcpy(&scale, scales + i * static_cast<int64_t>(sizeof scale), sizeof scale);
    if (!(scale >= 0 && scale <= kLargestScale)) return false;
  }
  return true;
}

size_t code_bytes(int64_t n, int64_t block, int bits) {
  return static_cast<size_t>(n / block * (block / 8 * bits) + (n % block * bits + 7) / 8);
}

std::unique_ptr<Codec> make_quantized_codec(const Config& config, const CodecSetup& setup, int bits, int64_t block) {
  block = config.integer("block");
  if (block % 64 != 0) config.fail("block", "is no multiple of 64", std::to_string(block), "64, 128, 192, ...");
  if (bits == 1 && config.choice("scale") == "one") {
    if (setup.feedback)
      config.fail("feedback", "has nothing to keep where no magnitude is sent", "scale = one", "feedback = false, or scale = \"mean\"");
    return std::make_unique<VoteCodec>(setup, block);
  }
  const bool stochastic = bits > 1 && config.choice("rounding") == "stochastic";
  Levels levels = bits == 1 ? Levels::mean : Levels::largest;
  if (bits == 2 && config.choice("scale") == "mean") {
    if (stochastic && config.has("scale"))
      config.fail("scale", "cuts off what stochastic rounding has to keep", "mean", "scale = \"largest\"");
    levels = stochastic ? Levels::largest : Levels::mean;
  }
  return std::make_unique<QuantizedCodec>(setup, bits, block, levels, stochastic);
}

}  // namespace perigee
