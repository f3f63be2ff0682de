#include "cluster/codec/parts_codec.h"

#include <algorithm>
#include <cassert>

#include "kernels/block_math.h"
#include "kernels/round_up.h"

namespace perigee {
namespace {

constexpr int64_t kWorthwhile = 10;  // times smaller than the matrix
constexpr size_t kPartsCodecAlign = 64;
constexpr int64_t kBorder = 16;  // elements: 64 bytes

}  // namespace

PartsCodec::PartsCodec(std::unique_ptr<Codec> codec, std::span<const ParamWindow> windows, int64_t block_elements, uint64_t seed)
    : codec_(std::move(codec)), block_elements_(block_elements), seed_(seed) {
  const int passes = codec_->passes();
  assert(passes > 0);
  passes_.resize(static_cast<size_t>(passes));
  int64_t first = 0;
  for (const ParamWindow& window : windows) {
    if (!window.trainable) continue;
    windows_.push_back({window.offset, window.elements});
    if (passes > 1) {  // each matrix by itself
      CodecSegment where{.first = first, .count = window.elements};
      int64_t floats = window.elements;
      if (window.shape.rank() >= 2) {
        where.rows = window.shape[0], floats = 0;
        for (int pass = 0; pass < passes; ++pass) floats += codec_->part_floats(where, pass);
      }
      add_segment(where, floats * kWorthwhile > window.elements);
    }
    first += window.elements;
  }
  if (passes == 1) add_segment({.count = first}, false);
  for (int64_t& pass : passes_) pass = round_up(pass, kBorder);
  packed_.resize(static_cast<size_t>(first));
}

void PartsCodec::add_segment(const CodecSegment& where, bool dense) {
  Segment segment{
      .where = where, .residual = memory_.residual.size(), .state = memory_.state.size(), .part = parts_.size(), .dense = dense};
  if (dense) {
    passes_.back() += where.count;
  } else {
    size_t floats = 0;
    for (size_t pass = 0; pass < passes_.size(); ++pass) {
      const int64_t count = codec_->part_floats(where, static_cast<int>(pass));
      passes_[pass] += count, floats += static_cast<size_t>(count);
    }
    parts_.resize(parts_.size() + floats);
    if (codec_->feedback()) memory_.residual.resize(memory_.residual.size() + static_cast<size_t>(where.count));
    memory_.state.resize(memory_.state.size() + codec_->state_floats(where));
    scratch_.resize(std::max(scratch_.size(), codec_->scratch_bytes(where) + kPartsCodecAlign));
  }
  segments_.push_back(segment);
}

double PartsCodec::residual_square() const {
  const std::vector<float>& residual = memory_.residual;
  return residual.empty() ? -1 : block_math(Dtype::f32).sum_of_squares(residual.data(), static_cast<int64_t>(residual.size()));
}

void PartsCodec::restart() {
  memory_.settle(false);
  std::fill(memory_.state.begin(), memory_.state.end(), 0.0f);
}

EncodeCall PartsCodec::call_of(const Segment& segment) {
  const auto count = static_cast<size_t>(segment.where.count);
  const size_t off = reinterpret_cast<uintptr_t>(scratch_.data()) % kPartsCodecAlign;
  return {.segment = segment.where,
          .values = std::span(packed_).subspan(static_cast<size_t>(segment.where.first), count),
          .residual = std::span(memory_.residual).subspan(segment.residual, codec_->feedback() ? count : 0),
          .state = std::span(memory_.state).subspan(segment.state, codec_->state_floats(segment.where)),
          .seed = seed_,
          .round = round_,
          .scratch = std::span(scratch_).subspan(off == 0 ? 0 : kPartsCodecAlign - off, codec_->scratch_bytes(segment.where))};
}

std::span<float> PartsCodec::parts_of(const Segment& segment) {
  size_t floats = 0;
  for (size_t pass = 0; pass < passes_.size(); ++pass)
    floats += static_cast<size_t>(codec_->part_floats(segment.where, static_cast<int>(pass)));
  return std::span(parts_).subspan(segment.part, floats);
}

bool PartsCodec::begin(const float* gradient, int64_t round, double weight, float* row) {
  const BlockMath& math = block_math(Dtype::f32);
  float* to = packed_.data();
  for (const Window& window : windows_) to = std::copy_n(gradient + window.offset, window.elements, to);
  memory_.begin();
  round_ = static_cast<uint64_t>(round);
  weight_ = weight;
  bool finite = true;
  int64_t all = 0;
  for (const int64_t pass : passes_) all += pass;
  std::fill(row, row + all, 0.0f);
  float* part = row;
  float* last = row + (all - passes_.back());
  for (const Segment& segment : segments_) {
    const EncodeCall call = call_of(segment);
    if (segment.dense) {
      finite = math.scale(call.values.data(), weight, segment.where.count, last) && finite;
      last += segment.where.count;
      continue;
    }
    const std::span<float> parts = parts_of(segment);
    const int64_t count = codec_->part_floats(segment.where, 0);
    if (!codec_->make_part(call, 0, parts)) finite = false;
    else finite = math.scale(parts.data(), weight, count, part) && finite;
    part += count;
    if (passes_.size() > 1) last += codec_->part_floats(segment.where, static_cast<int>(passes_.size()) - 1);
  }
  memory_.pend();
  if (!finite) memory_.settle(false);
  return finite;
}

void PartsCodec::next(int pass, double all, float* row) {
  assert(pass > 0 && static_cast<size_t>(pass) < passes_.size() && all > 0);
  const BlockMath& math = block_math(Dtype::f32);
  float* before = row;
  for (int earlier = 0; earlier + 1 < pass; ++earlier) before += passes_[static_cast<size_t>(earlier)];
  float* to = before + passes_[static_cast<size_t>(pass) - 1];
  for (const Segment& segment : segments_) {
    if (segment.dense) {
      to += static_cast<size_t>(pass) + 1 == passes_.size() ? segment.where.count : 0;
      continue;
    }
    const std::span<float> parts = parts_of(segment);
    const int64_t had = codec_->part_floats(segment.where, pass - 1), has = codec_->part_floats(segment.where, pass);
    int64_t at = 0;
    for (int earlier = 0; earlier + 1 < pass; ++earlier) at += codec_->part_floats(segment.where, earlier);
    math.divide(before, all, had, parts.data() + at);
    codec_->make_part(call_of(segment), pass, parts);
    math.scale(parts.data() + at + had, weight_, has, to);
    before += had, to += has;
  }
}

void PartsCodec::end(int64_t round, double all, bool counted, const float* row, float* gradient) {
  const BlockMath& math = block_math(Dtype::f32);
  round_ = static_cast<uint64_t>(round);
  memory_.settle(counted);
  std::fill(packed_.begin(), packed_.end(), 0.0f);
  const float* last = row;
  for (size_t pass = 0; pass + 1 < passes_.size(); ++pass) last += passes_[pass];
  for (const Segment& segment : segments_) {
    float* to = packed_.data() + segment.where.first;
    if (segment.dense) {
      math.divide(last, all, segment.where.count, to);
      last += segment.where.count;
      continue;
    }
    const std::span<float> parts = parts_of(segment);
    const int64_t count = codec_->part_floats(segment.where, static_cast<int>(passes_.size()) - 1);
    math.divide(last, all, count, parts.data() + (static_cast<int64_t>(parts.size()) - count));
    codec_->add_parts(call_of(segment), parts, 1, {to, static_cast<size_t>(segment.where.count)});
    last += count;
  }
  const float* from = packed_.data();
  int64_t end = 0;
  for (const Window& window : windows_) {
    std::fill(gradient + end, gradient + window.offset, 0.0f);
    end = window.offset + window.elements;
    std::copy_n(from, window.elements, gradient + window.offset);
    from += window.elements;
  }
  std::fill(gradient + end, gradient + block_elements_, 0.0f);
}

}  // namespace perigee
