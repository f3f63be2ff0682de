#include "src/train/loss_factors.h"

#include <algorithm>

#include "kernels/block_math.h"

namespace perigee {

std::string option_of_factor(const LossFactor& factor) {
  const std::string name = factor.input.substr(std::string_view(kLossFactor).size());
  return name.starts_with("loss.") ? name + ".weight" : "terms." + name;
}

LossFactors::LossFactors(const std::vector<LossFactor>& factors, int64_t examples, Dtype dtype) : dtype_(dtype) {
  const auto bytes = static_cast<size_t>(examples) * dtype_bytes(dtype);
  for (const LossFactor& factor : factors)
    all_.push_back({factor.input, factor, Schedule(factor.schedule, factor.where), 0, std::vector<std::byte>(bytes)});
}

void LossFactors::change(const Json& given) {
  std::vector<Schedule> schedules;
  for (const Each& each : all_) {
    const Json* value = given.find(option_of_factor(each.own));
    schedules.emplace_back(value == nullptr || value->is_null() ? each.own.schedule : *value, each.own.where);
  }
  for (size_t i = 0; i < all_.size(); ++i) all_[i].schedule = std::move(schedules[i]);
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
