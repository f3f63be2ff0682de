#include "src/data/sound/decoder.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "src/core/error.h"
#include "src/io/sound/resample.h"
#include "src/io/sound/sound.h"

namespace perigee {
namespace {

// One channel, or the mean of all.
void mix(const Sound& sound, int64_t channels, int64_t channel, float* out) {
  const int64_t count = sound.channels, first = channels == 1 ? 0 : channel, last = channels == 1 ? count - 1 : channel;
  for (int64_t i = 0; i < sound.frames; ++i) {
    float sum = 0;
    for (int64_t c = first; c <= last; ++c) sum += sound.samples[static_cast<size_t>(i * count + c)];
    out[i] = sum / static_cast<float>(last - first + 1);
  }
}

const Resampler& resampler_between(int64_t rate, int64_t wanted, const std::string& path) {
  thread_local int64_t from = 0, to = 0;
  thread_local Resampler resampler;
  if (from != rate || to != wanted) {
    resampler = Resampler(rate, wanted, path);
    from = rate, to = wanted;
  }
  return resampler;
}

}  // namespace

int64_t SoundDecoder::decode(std::span<const std::byte> bytes, const std::string& path, float* to) const {
  // Their memory serves the thread's next recording.
  thread_local Sound sound;
  thread_local std::vector<float> mixed;
  const Resampler* resampler = nullptr;
  const auto wanted = [&](const SoundInfo& info) {
    if (info.rate != rate) resampler = &resampler_between(info.rate, rate, path);
    return resampler ? resampler->input_frames(steps) : steps;
  };
  decode_sound(bytes, path, std::ref(wanted), sound);  // by reference: a copy would allocate
  if (channels != 1 && channels != sound.channels)
    throw Error(ErrorKind::data, {.where = path,
                                  .what = "the recording has another number of channels",
                                  .got = std::to_string(sound.channels),
                                  .expected = std::to_string(channels),
                                  .hint = "channels = 1 mixes them"});
  const int64_t there = std::min(steps, resampler ? resampler->output_frames(sound.frames) : sound.frames);
  for (int64_t c = 0; c < channels; ++c, to += steps) {
    mixed.resize(static_cast<size_t>(sound.frames));
    mix(sound, channels, c, mixed.data());
    if (resampler) resampler->apply(mixed, {to, static_cast<size_t>(there)});
    else std::copy(mixed.begin(), mixed.begin() + there, to);
    std::fill(to + there, to + steps, 0.f);
  }
  return there;
}

}  // namespace perigee
