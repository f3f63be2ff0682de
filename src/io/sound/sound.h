// Sound files as numbers. WAV is read here; FLAC, Ogg, MP3, AIFF and the rest by libsndfile, which is loaded when the first of them is met.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/io/file.h"

namespace perigee {

struct SoundInfo {
  int64_t rate = 0, channels = 0, frames = 0;  // frames a second, numbers a frame, frames
};

struct Sound : SoundInfo {
  std::vector<float> samples;  // frame after frame, whole numbers as shares of the largest; used again by the next decoding
};

bool is_sound(std::span<const std::byte> bytes);                                                // by their first bytes
bool is_sound_suffix(std::string_view suffix);                                                  // "wav", in any case
inline constexpr const char* kSoundSuffixes = "wav, flac, ogg, opus, mp3, aiff, au, caf, w64";  // for messages

// Error(data) with `where` and the offset for what is damaged, cut short, empty, or has a rate above 1 MHz or more than 64 channels.
// Error(resources) when it needs libsndfile, which is not installed.
SoundInfo sound_info(std::span<const std::byte> bytes, const std::string& where);
// Decodes from the beginning as many frames as `wanted` says, or all there are; `sound.frames` says how many. Error(data) for more than 2^24 numbers,
// or 12 * 2^20 of a file below 2 MB.
using WantedFrames = std::function<int64_t(const SoundInfo&)>;
void decode_sound(std::span<const std::byte> bytes, const std::string& where, const WantedFrames& wanted, Sound& sound);

}  // namespace perigee
