#include "cluster/delta_codec.h"

#include <cassert>
#include <utility>

#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kAlign = 64;

}  // namespace

DeltaCodec::DeltaCodec(std::unique_ptr<Codec> codec, int64_t elements, uint64_t seed, uint64_t stream)
    : codec_(std::move(codec)), segment_{.count = elements}, seed_(seed), stream_(stream) {
  now_.residual.resize(codec_->feedback() ? static_cast<size_t>(elements) : 0);
  now_.state.resize(codec_->state_floats(segment_));
  out_.resize(bound());
  scratch_.resize(codec_->scratch_bytes(segment_) + kAlign);
}

std::span<std::byte> DeltaCodec::scratch() {
  const size_t off = reinterpret_cast<uintptr_t>(scratch_.data()) % kAlign;
  return std::span(scratch_).subspan(off == 0 ? 0 : kAlign - off, codec_->scratch_bytes(segment_));
}

SharedBytes DeltaCodec::encode(std::span<const float> values, int64_t round) {
  drop();
  last_ = Last::settled;
  other_ = now_;
  const size_t bytes = codec_->encode({.segment = segment_,
                                       .values = values,
                                       .residual = now_.residual,
                                       .state = now_.state,
                                       .seed = seed_,
                                       .round = static_cast<uint64_t>(round),
                                       .stream = stream_,
                                       .scratch = scratch()},
                                      out_);
  if (bytes == 0) return nullptr;  // and the memory is untouched
  last_ = Last::pending;
  return std::make_shared<const std::vector<std::byte>>(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(bytes));
}

void DeltaCodec::settle(bool counted) {
  assert(!counted || last_ == Last::pending);
  if (!counted) drop();
  last_ = Last::settled;
}

void DeltaCodec::drop() {
  if (last_ != Last::pending) return;
  if (!planted(Bug::residual_kept)) std::swap(now_, other_);
  last_ = Last::dropped;
}

void DeltaCodec::overtaken() {
  if (last_ == Last::dropped) std::swap(now_, other_);
  last_ = Last::settled;
}

bool DeltaCodec::add(std::span<const std::byte> payload, float weight, std::span<float> sum) {
  return codec_->decode_add(payload, weight, segment_, sum, scratch());
}

}  // namespace perigee
