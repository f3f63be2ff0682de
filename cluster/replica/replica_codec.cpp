#include "cluster/replica/replica_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/codec/delta_codec.h"
#include "cluster/codec/gradient_codec.h"
#include "kernels/block_math.h"

namespace perigee {
namespace {

// On the host: copies the values of a block into memory of the same size. False when one is not finite.
bool make_values(const CodedValues& values, std::span<float> to) {
  const BlockMath& math = block_math(Dtype::f32);
  const auto n = static_cast<int64_t>(to.size());
  if (!values.less) return math.scale(values.block, values.factor, n, to.data());
  std::fill(to.begin(), to.end(), 0.0f);
  math.add_change(values.less, values.block, n, to.data());
  return true;  // the codec looks
}

class HostBlockCodec final : public ReplicaCodec {
 public:
  HostBlockCodec(std::unique_ptr<Codec> codec, const ReplicaCodecSetup& setup, const std::vector<CodecSegment>& tensors)
      : windows_(setup.windows.begin(), setup.windows.end()),
        delta_(std::move(codec), {.count = setup.block_elements, .tensors = tensors.data(), .tensor_count = tensors.size()}, setup.seed,
               setup.stream) {}

  size_t bound() const override { return delta_.bound(); }
  double residual_square() override {
    const std::span<const float> residual = delta_.residual();
    return residual.empty() ? -1 : block_math(Dtype::f32).sum_of_squares(residual.data(), static_cast<int64_t>(residual.size()));
  }
  SharedBytes encode(const CodedValues& values, std::span<float> room, int64_t round, const StepProgress& when, int workers) override {
    return make_values(values, room) ? delta_.encode(room, round, when, workers) : nullptr;
  }
  void settle(bool counted) override { delta_.settle(counted); }
  void drop() override { delta_.drop(); }
  void overtaken() override { delta_.overtaken(); }

  std::optional<size_t> add(std::span<const WeightedPayload> payloads, std::span<float> room) override {
    sum_ = room;
    std::fill(room.begin(), room.end(), 0.0f);
    for (size_t i = 0; i < payloads.size(); ++i)
      if (!delta_.add(payloads[i].bytes, payloads[i].weight, room)) return i;
    return std::nullopt;
  }
  void take_sum(Take how, float* block) override {
    assert(how != Take::replace_all);
    for (const ParamWindow& window : windows_) {
      const float* const from = sum_.data() + window.offset;
      float* const to = block + window.offset;
      if (window.trainable && how == Take::replace) std::copy_n(from, window.elements, to);
      for (int64_t i = 0; window.trainable && how == Take::subtract && i < window.elements; ++i) to[i] -= from[i];
    }
  }

 private:
  std::vector<ParamWindow> windows_;
  DeltaCodec delta_;
  std::span<float> sum_;
};

class HostPackedCodec final : public ReplicaCodec {
 public:
  HostPackedCodec(std::unique_ptr<Codec> codec, const ReplicaCodecSetup& setup)
      : windows_(setup.windows.begin(), setup.windows.end()),
        gradient_(std::move(codec), setup.windows, setup.block_elements, setup.seed, setup.stream) {}

  size_t bound() const override { return gradient_.bound(); }
  double residual_square() override { return gradient_.residual_square(); }
  SharedBytes encode(const CodedValues& values, std::span<float> room, int64_t round, const StepProgress& when, int workers) override {
    return make_values(values, room) ? gradient_.encode(room.data(), round, when, workers) : nullptr;
  }
  void settle(bool counted) override { gradient_.settle(counted); }
  void drop() override { gradient_.drop(); }
  void overtaken() override { gradient_.overtaken(); }

  std::optional<size_t> add(std::span<const WeightedPayload> payloads, std::span<float> room) override {
    room_ = room;
    gradient_.begin_sum();
    for (size_t i = 0; i < payloads.size(); ++i)
      if (!gradient_.add(payloads[i].bytes, payloads[i].weight)) return i;
    return std::nullopt;
  }
  void take_sum(Take how, float* block) override {
    if (how == Take::replace_all) return gradient_.end_sum(block);
    assert(how == Take::subtract);
    gradient_.end_sum(room_.data());
    for (const ParamWindow& window : windows_)
      for (int64_t i = 0; window.trainable && i < window.elements; ++i)
        block[window.offset + i] -= room_[static_cast<size_t>(window.offset + i)];
  }

 private:
  std::vector<ParamWindow> windows_;
  GradientCodec gradient_;
  std::span<float> room_;
};

}  // namespace

std::unique_ptr<ReplicaCodec> make_host_codec(std::unique_ptr<Codec> codec, const ReplicaCodecSetup& setup) {
  if (setup.form == CodedForm::packed) return std::make_unique<HostPackedCodec>(std::move(codec), setup);
  return std::make_unique<HostBlockCodec>(std::move(codec), setup, codec_tensors(setup.windows));
}

}  // namespace perigee
