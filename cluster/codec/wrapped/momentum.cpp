#include "cluster/codec/wrapped/momentum.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "cluster/codec/sparse.h"
#include "cluster/codec/wrapped/wrapped_codec.h"
#include "kernels/block_math.h"
#include "kernels/half.h"

namespace perigee {
namespace {

class MomentumCodec final : public WrappedCodec {
 public:
  MomentumCodec(std::unique_ptr<Codec> inner, const CodecSetup& setup, double momentum, double clip_norm)
      : WrappedCodec(std::move(inner), setup), momentum_(momentum), clip_norm_(clip_norm) {}

  Json to_json() const override {
    Json json = inner().to_json();
    json.set("momentum", momentum_), json.set("clip_norm", clip_norm_);
    return json;
  }
  size_t scratch_bytes(const CodecSegment& segment) const override { return inner_scratch(segment) + floats_of(segment) * sizeof(float); }
  size_t state_floats(const CodecSegment& segment) const override { return floats_of(segment) + inner().state_floats(segment); }
  bool marks_sent() const override { return inner().marks_sent(); }

  size_t encode(const EncodeCall& call, std::span<std::byte> out) const override {
    assert(call.state.size() >= state_floats(call.segment) && call.scratch.size() >= scratch_bytes(call.segment));
    const size_t n = floats_of(call.segment), border = inner_scratch(call.segment);
    if (loops().largest(call.values.data(), nullptr, 1, call.segment.count) > bits_from_float(limit())) return 0;
    const std::span<float> velocity = call.state.first(n);
    const std::span<float> next(reinterpret_cast<float*>(call.scratch.data() + border), n);
    const float keep = static_cast<float>(momentum_), scale = clip_scale(call);
    for (size_t i = 0; i < n; ++i) next[i] = keep * velocity[i] + scale * call.values[i];
    EncodeCall inner_call = call;
    inner_call.values = next;
    inner_call.state = call.state.subspan(n);
    inner_call.scratch = call.scratch.first(border);
    const size_t bytes = inner().encode(inner_call, out);
    if (bytes == 0) return 0;
    std::copy(next.begin(), next.end(), velocity.begin());
    if (inner().marks_sent())
      each_set(reinterpret_cast<const uint64_t*>(call.scratch.data()), call.segment.count,
               [&](int64_t i) { velocity[static_cast<size_t>(i)] = 0; });
    return bytes;
  }

  bool decode_add(std::span<const std::byte> bytes, float weight, const CodecSegment& segment, std::span<float> sum,
                  std::span<std::byte> scratch) const override {
    return inner().decode_add(bytes, weight, segment, sum, scratch.first(inner_scratch(segment)));
  }

 private:
  static size_t floats_of(const CodecSegment& segment) { return static_cast<size_t>(segment.count); }

  // No gradient of K workers is longer than clip_norm / sqrt(K): their sum is then about as long as one that was clipped.
  float clip_scale(const EncodeCall& call) const {
    if (clip_norm_ == 0) return 1;
    const double norm = std::sqrt(block_math(Dtype::f32).sum_of_squares(call.values.data(), call.segment.count));
    const double most = clip_norm_ / std::sqrt(static_cast<double>(call.workers));
    return norm > most ? static_cast<float>(most / norm) : 1;
  }

  double momentum_, clip_norm_;
};

}  // namespace

std::unique_ptr<Codec> make_momentum_codec(std::unique_ptr<Codec> inner, const CodecSetup& setup, double momentum, double clip_norm) {
  return std::make_unique<MomentumCodec>(std::move(inner), setup, momentum, clip_norm);
}

}  // namespace perigee
