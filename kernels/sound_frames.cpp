#include "kernels/sound_frames.h"

#include <algorithm>
#include <numbers>

namespace perigee {
namespace {

// Each is as long as a whole number of lines of the cache.
constexpr size_t rounded(int64_t numbers) { return (static_cast<size_t>(numbers) + 15) / 16 * 16; }

// exp(-i pi k / half) for k < 3 / 2 half. An eighth of the circle is computed, since a kernel makes its tables anew for each call.
void write_circle(int64_t half, float* cosine, float* sine) {
  const auto put = [&](int64_t k, double c, double s) { cosine[k] = static_cast<float>(c), sine[k] = static_cast<float>(s); };
  for (int64_t k = 0; k <= half / 4; ++k) {
    const double angle = std::numbers::pi * static_cast<double>(k) / static_cast<double>(half), c = std::cos(angle), s = std::sin(angle);
    put(k, c, -s), put(half / 2 - k, s, -c);
    put(half / 2 + k, -s, -c);
    if (k > 0) put(half - k, -c, -s);
  }
  for (int64_t k = half; k < half * 3 / 2; ++k) cosine[k] = -cosine[k - half], sine[k] = -sine[k - half];
}

}  // namespace

size_t SoundFrames::table_bytes(const StftParams& p) {
  return (2 * rounded(p.fft / 2 * 3 / 2) + rounded(p.window) + rounded(p.fft)) * sizeof(float);
}

SoundFrames::SoundFrames(const StftParams& params, const SoundLoops& loops, void* memory) : p_(params), loops_(loops) {
  const int64_t half = p_.fft / 2;
  cosine_ = static_cast<float*>(memory), sine_ = cosine_ + rounded(half * 3 / 2), taper_ = sine_ + rounded(half * 3 / 2);
  places_ = reinterpret_cast<int32_t*>(taper_ + rounded(p_.window));
  write_circle(half, cosine_, sine_);
  for (int64_t i = 0; i < p_.window; ++i) {
    // Tapers are symmetric.
    const int64_t other = p_.symmetric ? p_.window - 1 - i : p_.window - i;
    taper_[i] = other < i ? taper_[other] : static_cast<float>(stft_taper(p_, i));
  }
  // Numbers in pairs, the pairs in bit-reversed order.
  int64_t reversed = 0;
  for (int64_t i = 0; i < half; ++i) {
    places_[2 * i] = static_cast<int32_t>(2 * reversed), places_[2 * i + 1] = static_cast<int32_t>(2 * reversed + 1);
    int64_t bit = half / 2;
    for (; bit > 0 && (reversed & bit) != 0; bit /= 2) reversed ^= bit;
    reversed |= bit;
  }
}

const float* SoundFrames::frame(const float* from, int64_t there, int64_t number, float* cut, float emphasis) const {
  const int64_t start = stft_start(p_, number), size = p_.window;
  if (start >= 0 && start + size <= there && emphasis == 0) return from + start;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = stft_place(p_, start + i, there);
    cut[i] = at >= 0 ? from[at] : 0;
  }
  if (emphasis != 0)
    for (int64_t i = size - 1; i >= 0; --i) cut[i] -= emphasis * cut[std::max<int64_t>(i - 1, 0)];
  return cut;
}

void SoundFrames::load(const float* from, int64_t there, int64_t first, int64_t count, float* z) const {
  const float* frames[kSoundLanes];
  float* cut = z + p_.fft * kSoundLanes;
  for (int64_t lane = 0; lane < kSoundLanes; ++lane)
    frames[lane] = frame(from, there, first + std::min(lane, count - 1), cut + lane * p_.window, static_cast<float>(p_.preemphasis));
  loops_.load(frames, taper_, places_, p_.window, z);
  for (int64_t i = p_.window; i < p_.fft; ++i) std::fill_n(z + places_[i] * kSoundLanes, kSoundLanes, 0.f);
}

void SoundFrames::power(const float* from, int64_t there, int64_t first, int64_t count, float* scratch, float* rows) const {
  load(from, there, first, count, scratch);
  loops_.power(p_.fft / 2, cosine_, sine_, scratch, rows);
}

void SoundFrames::spectrum(const float* from, int64_t there, int64_t first, int64_t count, float* scratch, float* rows) const {
  load(from, there, first, count, scratch);
  loops_.bins(p_.fft / 2, cosine_, sine_, scratch, rows);
}

void SoundFrames::slopes(const float* rows, int64_t there, int64_t first, int64_t count, float* scratch, float* to) const {
  loops_.unbin(p_.fft / 2, cosine_, sine_, places_, rows, scratch);
  const auto emphasis = static_cast<float>(p_.preemphasis);
  for (int64_t i = 0; i < p_.window; ++i)
    for (int64_t lane = 0; lane < kSoundLanes; ++lane) scratch[i * kSoundLanes + lane] *= taper_[i];
  for (int64_t lane = 0; lane < count; ++lane) {
    const int64_t start = stft_start(p_, first + lane);
    const float* slope = scratch + lane;
    for (int64_t i = 0; i < p_.window; ++i) {
      const int64_t at = stft_place(p_, start + i, there);
      if (at < 0) continue;
      float own = slope[i * kSoundLanes];
      if (i + 1 < p_.window) own -= emphasis * slope[(i + 1) * kSoundLanes];
      if (i == 0) own -= emphasis * slope[0];
      to[at] += own;
    }
  }
}

}  // namespace perigee
