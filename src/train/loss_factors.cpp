#include "src/train/loss_factors.h"

#include <algorithm>

#include "kernels/block_math.h"

namespace perigee {

LossFactors::LossFactors(const std::vector<LossFactor>& factors, int64_t examples, Dtype dtype) : dtype_(dtype) {
  const auto bytes = static_cast<size_t>(examples) * dtype_bytes(dtype);
  for (const LossFactor& factor : factors)
    all_.push_back({factor.input, Schedule(factor.schedule, factor.where), 0, std::vector<std::byte>(bytes)});
}

void LossFactors::set(const StepProgress& now, int64_t examples) {
  const auto bytes = static_cast<size_t>(examples) * dtype_bytes(dtype_);
  for (Each& each : all_) {
    const double value = std::max(0.0, each.schedule.at(now));
    if (value == each.now && bytes <= each.values.size()) continue;
    each.now = value;
    if (bytes > each.values.size()) each.values.resize(bytes);
    block_math(dtype_).fill(value, static_cast<int64_t>(each.values.size() / dtype_bytes(dtype_)), each.values.data());
  }
}

}  // namespace perigee
