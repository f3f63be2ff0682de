#include "src/io/sound/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/sound_loops.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"

namespace perigee {
namespace {

double bessel(double x) {  // I0
  double sum = 1, term = 1;
  for (int k = 1; term > sum * 1e-17; ++k) sum += term *= x * x / (4. * k * k);
  return sum;
}

}  // namespace

Resampler::Resampler(int64_t from, int64_t to, const std::string& where, int zeros, double beta, double cutoff) {
  const int64_t common = std::gcd(from, to);
  up_ = to / common, down_ = from / common;
  const int64_t wider = std::max(up_, down_), half = zeros * wider;
  if (2 * half > kMostTaps)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the rate has no simple ratio to the one that is wanted",
                                  .got = std::to_string(from) + " to " + std::to_string(to),
                                  .hint = "convert the sound beforehand, or choose a rate with common factors"});
  reach_ = half / up_ + 1;
  const int64_t width = 2 * reach_ + 1;
  taps_.assign(static_cast<size_t>(up_ * width), 0);
  double sum = 0;
  std::vector<double> half_filter;
  for (int64_t d = 0; d <= half; ++d) {
    const double x = cutoff * static_cast<double>(d) / static_cast<double>(wider),
                 along = static_cast<double>(d) / static_cast<double>(half);
    const double sinc = d == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    half_filter.push_back(sinc * bessel(beta * std::sqrt(1 - along * along)));
    sum += (d == 0 ? 1 : 2) * half_filter.back();
  }
  for (int64_t phase = 0; phase < up_; ++phase)
    for (int64_t j = -reach_; j <= reach_; ++j)
      if (const int64_t d = std::abs(phase - j * up_); d <= half)
        taps_[static_cast<size_t>(phase * width + j + reach_)] =
            static_cast<float>(half_filter[static_cast<size_t>(d)] / sum * static_cast<double>(up_));
}

void Resampler::apply(std::span<const float> in, std::span<float> out) const {
  const auto size = static_cast<int64_t>(in.size()), count = static_cast<int64_t>(out.size()), width = 2 * reach_ + 1;
  const auto dot = sound_loops(host_isa()).dot;
  // Outputs of a phase in turn, which need one division.
  for (int64_t group = 0; group < count; group += 32 * up_)
    for (int64_t first = group; first < std::min(count, group + up_); ++first) {
      const int64_t end_of_phase = std::min(count, first + 32 * up_);
      int64_t base = first * down_ / up_;
      const float* taps = taps_.data() + (first * down_ - base * up_) * width;
      for (int64_t k = first; k < end_of_phase; k += up_, base += down_) {
        const int64_t begin = std::max<int64_t>(0, base - reach_), end = std::min(size, base + reach_ + 1);
        out[static_cast<size_t>(k)] = dot(in.data() + begin, taps + begin - base + reach_, end - begin);
      }
    }
}

}  // namespace perigee
