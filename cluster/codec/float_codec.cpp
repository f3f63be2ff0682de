#include "cluster/codec/float_codec.h"

#include <algorithm>
#include <cstring>

namespace perigee {
namespace {

constexpr size_t kElement = sizeof(float);

// Reads values at `in`, a few at a time: bytes from outside need not be aligned.
template <class T>
bool finite_words(const std::byte* in, int64_t n, uint32_t exponent) {
  const T mask = static_cast<T>(exponent);
  for (int64_t begin = 0; begin < n; begin += 256) {
    T words[256];
    const int64_t count = std::min<int64_t>(256, n - begin);
    std::memcpy(words, in + begin * static_cast<int64_t>(sizeof(T)), static_cast<size_t>(count) * sizeof(T));
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; ++i) bad |= static_cast<uint32_t>((words[i] & mask) == mask);
    if (bad != 0) return false;
  }
  return true;
}

class FloatCodec final : public Codec {
 public:
  FloatCodec(const FloatFormat& format, const CodecSetup& setup) : Codec(setup), format_(format) {}

  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + body_bytes(segment); }
  double bits_per_element(const CodecSegment&) const override { return 8.0 * static_cast<double>(format_.bytes); }
  float limit() const override { return std::min(format_.limit, Codec::limit()); }

  int passes() const override { return format_.bytes == kElement ? 1 : 0; }
  int64_t part_floats(const CodecSegment& segment, int) const override { return passes() == 1 ? segment.count : 0; }

  bool make_part(const EncodeCall& call, int, std::span<float> parts) const override {
    if (passes() == 0 || !encodable(call)) return false;
    std::copy(call.values.begin(), call.values.end(), parts.begin());
    for (size_t i = 0; i < call.residual.size(); ++i) parts[i] += decay() * call.residual[i];
    std::fill(call.residual.begin(), call.residual.end(), 0.0f);
    return true;
  }

  void add_parts(const EncodeCall& call, std::span<const float> parts, float weight, std::span<float> sum) const override {
    loops().add_f32(reinterpret_cast<const std::byte*>(parts.data()), call.segment.count, weight, sum.data());
  }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader*, std::byte* body) const override {
    const float* v = call.values.data();
    float* residual = nullptr;
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), call.segment.count);
      v = residual = call.residual.data();
    }
    format_.write(loops(), v, call.segment.count, body, residual);
    return body_bytes(call.segment);
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    if (header.variant != 0 || header.detail != 0 || body.size() != body_bytes(segment)) return false;
    if (!all_finite(format_, body.data(), segment.count)) return false;
    format_.add(loops(), body.data(), segment.count, weight, sum.data());
    return true;
  }

  void add_options(Json*) const override {}

 private:
  size_t body_bytes(const CodecSegment& segment) const { return static_cast<size_t>(segment.count * format_.bytes); }

  const FloatFormat& format_;
};

void write_fp32(const CodecLoops&, const float* v, int64_t n, std::byte* out, float* residual) {
  std::memcpy(out, v, static_cast<size_t>(n) * kElement);
  if (residual) std::fill_n(residual, n, 0.0f);
}

}  // namespace

bool all_finite(const FloatFormat& format, const std::byte* in, int64_t n) {
  return format.bytes == kElement ? finite_words<uint32_t>(in, n, format.exponent) : finite_words<uint16_t>(in, n, format.exponent);
}

std::unique_ptr<Codec> make_float_codec(const FloatFormat& format, const CodecSetup& setup) {
  return std::make_unique<FloatCodec>(format, setup);
}

constexpr FloatFormat kFp32{
    .bytes = 4,
    .limit = 0x1p100f,
    .exponent = 0x7f800000u,
    .write = write_fp32,
    .add = [](const CodecLoops& loops, const std::byte* in, int64_t n, float weight, float* sum) { loops.add_f32(in, n, weight, sum); }};
constexpr FloatFormat kBf16{
    .bytes = 2,
    .limit = 0x1p100f,
    .exponent = 0x7f80u,
    .write = [](const CodecLoops& loops, const float* v, int64_t n, std::byte* out, float* r) { loops.to_bf16(v, n, out, r); },
    .add = [](const CodecLoops& loops, const std::byte* in, int64_t n, float weight, float* sum) { loops.add_bf16(in, n, weight, sum); }};
constexpr FloatFormat kFp16{
    .bytes = 2,
    .limit = 65504,
    .exponent = 0x7c00u,
    .write = [](const CodecLoops& loops, const float* v, int64_t n, std::byte* out, float* r) { loops.to_f16(v, n, out, r); },
    .add = [](const CodecLoops& loops, const std::byte* in, int64_t n, float weight, float* sum) { loops.add_f16(in, n, weight, sum); }};

}  // namespace perigee
