#include "cluster/codec/delta_codec.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr size_t kDeltaCodecAlign = 64;

}  // namespace

std::vector<CodecSegment> codec_tensors(std::span<const ParamWindow> windows) {
  std::vector<CodecSegment> tensors;
  for (const ParamWindow& window : windows)
    if (window.trainable)
      tensors.push_back({.first = window.offset, .count = window.elements, .rows = window.shape.rank() >= 2 ? window.shape[0] : 0});
  return tensors;
}

DeltaCodec::DeltaCodec(std::unique_ptr<Codec> codec, const CodecSegment& segment, uint64_t seed, uint64_t stream)
    : codec_(std::move(codec)),
      segment_(segment),
      tensors_(segment.tensors, segment.tensors + segment.tensor_count),
      seed_(seed),
      stream_(stream) {
  segment_.tensors = tensors_.data();
  memory_.residual.resize(codec_->feedback() ? static_cast<size_t>(segment.count) : 0);
  memory_.state.resize(codec_->state_floats(segment_));
  out_.resize(bound());
  scratch_.resize(codec_->scratch_bytes(segment_) + kDeltaCodecAlign);
}

std::span<std::byte> DeltaCodec::scratch() {
  const size_t off = reinterpret_cast<uintptr_t>(scratch_.data()) % kDeltaCodecAlign;
  return std::span(scratch_).subspan(off == 0 ? 0 : kDeltaCodecAlign - off, codec_->scratch_bytes(segment_));
}

SharedBytes DeltaCodec::encode(std::span<const float> values, int64_t round, const StepProgress& when, int workers) {
  memory_.begin();
  const size_t bytes = codec_->encode({.segment = segment_,
                                       .values = values,
                                       .residual = memory_.residual,
                                       .state = memory_.state,
                                       .seed = seed_,
                                       .round = static_cast<uint64_t>(round),
                                       .stream = stream_,
                                       .when = when,
                                       .workers = workers,
                                       .scratch = scratch()},
                                      out_);
  if (bytes == 0) return nullptr;  // and the memory is untouched
  memory_.pend();
  const std::shared_ptr<std::vector<std::byte>> payload = payloads_.take(bytes);
  std::copy_n(out_.begin(), bytes, payload->begin());
  return payload;
}

bool DeltaCodec::add(std::span<const std::byte> payload, float weight, std::span<float> sum) {
  return codec_->decode_add(payload, weight, segment_, sum, scratch());
}

}  // namespace perigee
