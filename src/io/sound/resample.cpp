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

constexpr int64_t kTurns = 16;  // of a phase before the next: inputs and outputs stay in the nearest cache

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
  double sum = 0;
  std::vector<double> half_filter;
  for (int64_t d = 0; d <= half; ++d) {
    const double x = cutoff * static_cast<double>(d) / static_cast<double>(wider),
                 along = static_cast<double>(d) / static_cast<double>(half);
    const double sinc = d == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    half_filter.push_back(sinc * bessel(beta * std::sqrt(1 - along * along)));
    sum += (d == 0 ? 1 : 2) * half_filter.back();
  }
  // Each phase has the taps that are not zero alone, filled up to whole vectors.
  for (int64_t phase = 0; phase < up_; ++phase) {
    const int64_t first = -((half - phase) / up_), count = (phase + half) / up_ - first + 1;
    phases_.push_back({.first = first, .taps = taps_.size(), .count = (count + kSoundLanes - 1) / kSoundLanes * kSoundLanes});
    for (int64_t i = 0; i < phases_.back().count; ++i) {
      const int64_t d = std::abs(phase - (first + i) * up_);
      taps_.push_back(i < count ? static_cast<float>(half_filter[static_cast<size_t>(d)] / sum * static_cast<double>(up_)) : 0.f);
    }
  }
}

void Resampler::apply(std::span<const float> in, std::span<float> out) const {
  const auto count = static_cast<int64_t>(out.size());
  const SoundLoops& loops = sound_loops(host_isa());
  // Outputs of a phase in turn, which share its taps.
  for (int64_t group = 0; group < count; group += kTurns * up_)
    for (int64_t first = group; first < std::min(count, group + up_); ++first)
      apply_phase(loops, in, out, first, std::min(count, first + kTurns * up_));
}

// Outputs first, first + up_, ... before `end`.
void Resampler::apply_phase(const SoundLoops& loops, std::span<const float> in, std::span<float> out, int64_t first, int64_t end) const {
  const auto size = static_cast<int64_t>(in.size());
  int64_t base = first * down_ / up_;
  const Phase& phase = phases_[static_cast<size_t>(first * down_ - base * up_)];
  const float* const taps = taps_.data() + phase.taps;
  base += phase.first;  // the first input that an output looks at
  const int64_t step = up_, more = (kSoundLanes - 1) * up_, looked_at = (kSoundLanes - 1) * down_ + phase.count;
  for (int64_t k = first; k < end;) {
    if (base >= 0 && base + looked_at <= size && k + more < end) {
      float sums[kSoundLanes];
      loops.dots(in.data() + base, down_, taps, phase.count, sums);
      float* to = out.data() + k;
      for (int64_t j = 0; j < kSoundLanes; ++j, to += step) *to = sums[j];
      k += more + step, base += kSoundLanes * down_;
      continue;
    }
    const int64_t from = std::max<int64_t>(0, -base), to = std::clamp<int64_t>(size - base, from, phase.count);
    out[static_cast<size_t>(k)] = loops.dot(in.data() + base + from, taps + from, to - from);
    k += up_, base += down_;
  }
}

}  // namespace perigee
