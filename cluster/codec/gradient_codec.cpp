#include "cluster/codec/gradient_codec.h"

#include <algorithm>

#include "kernels/block_math.h"

namespace perigee {

int64_t trainable_elements(std::span<const ParamWindow> windows) {
  int64_t count = 0;
  for (const ParamWindow& window : windows) count += window.trainable ? window.elements : 0;
  return count;
}

GradientCodec::GradientCodec(std::unique_ptr<Codec> codec, std::span<const ParamWindow> windows, int64_t block_elements, uint64_t seed,
                             uint64_t stream)
    : block_elements_(block_elements),
      delta_(std::move(codec), trainable_elements(windows), seed, stream),
      packed_(static_cast<size_t>(trainable_elements(windows))) {
  for (const ParamWindow& window : windows)
    if (window.trainable) windows_.push_back({window.offset, window.elements});
}

double GradientCodec::residual_square() const {
  const std::span<const float> residual = delta_.residual();
  if (residual.empty()) return -1;
  return block_math(Dtype::f32).sum_of_squares(residual.data(), static_cast<int64_t>(residual.size()));
}

SharedBytes GradientCodec::encode(const float* block, int64_t round, const StepProgress& when, int workers) {
  float* to = packed_.data();
  for (const Window& window : windows_) to = std::copy_n(block + window.offset, window.elements, to);
  return delta_.encode(packed_, round, when, workers);
}

void GradientCodec::begin_sum() { std::fill(packed_.begin(), packed_.end(), 0.0f); }

void GradientCodec::end_sum(float* block) const {
  const float* from = packed_.data();
  int64_t end = 0;
  for (const Window& window : windows_) {
    std::fill(block + end, block + window.offset, 0.0f);
    end = window.offset + window.elements;
    std::copy_n(from, window.elements, block + window.offset);
    from += window.elements;
  }
  std::fill(block + end, block + block_elements_, 0.0f);
}

}  // namespace perigee
