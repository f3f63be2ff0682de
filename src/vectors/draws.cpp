#include "src/vectors/draws.h"

#include <algorithm>
#include <cmath>

namespace perigee {

AliasTable::AliasTable(const std::vector<double>& weights) {
  constexpr double kWhole = 4294967295.0;
  const size_t n = weights.size();
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<double> shares(n);
  std::vector<int32_t> small, large;
  cells_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    shares[i] = weights[i] / sum * static_cast<double>(n);
    cells_[i] = {UINT32_MAX, static_cast<int32_t>(i)};
    (shares[i] < 1 ? small : large).push_back(static_cast<int32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const auto low = static_cast<size_t>(small.back()), high = static_cast<size_t>(large.back());
    small.pop_back();
    cells_[low] = {static_cast<uint32_t>(shares[low] * kWhole), static_cast<int32_t>(high)};
    shares[high] -= 1 - shares[low];
    if (shares[high] >= 1) continue;
    large.pop_back();
    small.push_back(static_cast<int32_t>(high));
  }
}

AliasTable noise_table(const ElementTable& elements, double exponent) {
  std::vector<double> weights(static_cast<size_t>(elements.size()));
  for (int64_t i = 0; i < elements.size(); ++i)
    weights[static_cast<size_t>(i)] = std::pow(static_cast<double>(std::max<int64_t>(1, elements.count(i))), exponent);
  return AliasTable(weights);
}

std::vector<uint32_t> keep_chances(const ElementTable& elements, double sample) {
  std::vector<uint32_t> chances;
  if (!(sample > 0)) return chances;
  const double threshold = sample * static_cast<double>(elements.total());
  for (int64_t i = 0; i < elements.size(); ++i) {
    const auto count = static_cast<double>(std::max<int64_t>(1, elements.count(i)));
    const double chance = (std::sqrt(count / threshold) + 1) * threshold / count;
    chances.push_back(chance >= 1 ? UINT32_MAX : static_cast<uint32_t>(chance * 4294967295.0));
  }
  return chances;
}

}  // namespace perigee
