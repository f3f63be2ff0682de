#include "src/io/sound/sound.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

#include "src/core/error.h"
#include "src/io/sound/libsndfile.h"

namespace perigee {
namespace {

constexpr int64_t kMaxRate = 1000000, kMaxChannels = 64;
constexpr int64_t kMaxSamples = int64_t{1} << 24, kMaxOfSmall = int64_t{12} << 20;  // of a file below 2 MB, which might claim anything
enum Coding : uint16_t { pcm = 1, real = 3, a_law = 6, mu_law = 7, extensible = 0xFFFE };

[[noreturn]] void fail_sound(const std::string& where, const std::string& what, const std::string& got = "",
                             const std::string& expected = "", const std::string& hint = "") {
  throw Error(ErrorKind::data, {.where = where, .what = what, .got = got, .expected = expected, .hint = hint});
}

void check_sound(const SoundInfo& info, const std::string& where) {
  const auto within = [&](const char* of, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      fail_sound(where, std::string("the sound's header has an impossible ") + of, std::to_string(value), "1 to " + std::to_string(most));
  };
  within("number of channels", info.channels, kMaxChannels);
  within("rate", info.rate, kMaxRate);
  within("number of frames", info.frames, int64_t{1} << 40);
}

// --- WAV -----------------------------------------------------------------------------------------------------------------------

struct Wav : SoundInfo {
  int coding = 0, bytes = 0;  // of a number
  std::span<const std::byte> data;
};

uint32_t sound_little(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint32_t>(bytes[at + i]) << 8 * i;
  return value;
}

bool is_wav(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  return text.starts_with("RIFF") && text.substr(0, 12).ends_with("WAVE") && text.size() >= 12;
}

std::string sound_place(const std::string& where, size_t at) { return where + ": byte " + std::to_string(at); }

// False: a coding that is left to libsndfile.
bool read_format(std::span<const std::byte> chunk, const std::string& where, size_t at, Wav& wav) {
  if (chunk.size() < 16)
    fail_sound(sound_place(where, at), "the chunk 'fmt ' is too short", std::to_string(chunk.size()) + " bytes", "at least 16");
  wav.coding = static_cast<int>(sound_little(chunk, 0, 2));
  wav.channels = sound_little(chunk, 2, 2), wav.rate = sound_little(chunk, 4, 4);
  const int64_t block = sound_little(chunk, 12, 2), bits = sound_little(chunk, 14, 2);
  if (wav.coding == extensible && chunk.size() >= 26) wav.coding = static_cast<int>(sound_little(chunk, 24, 2));
  const bool whole = wav.coding == pcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
  const bool law = (wav.coding == a_law || wav.coding == mu_law) && bits == 8;
  if (!whole && !law && !(wav.coding == real && (bits == 32 || bits == 64))) return false;
  wav.frames = 1;
  check_sound(wav, where);
  wav.bytes = static_cast<int>(bits / 8);
  if (block != wav.channels * wav.bytes)
    fail_sound(sound_place(where, at), "the size of a frame does not fit its channels", std::to_string(block),
               std::to_string(wav.channels * wav.bytes));
  return true;
}

// False: a coding that is left to libsndfile.
bool read_wav(std::span<const std::byte> bytes, const std::string& where, Wav& wav) {
  bool foreign = false;
  for (size_t at = 12; bytes.size() - at >= 8;) {
    const std::string_view name = as_text(bytes.subspan(at, 4));
    const size_t size = sound_little(bytes, at + 4, 4), left = bytes.size() - at - 8;
    if (size > left)
      fail_sound(sound_place(where, at), "the chunk is longer than the file", std::to_string(size) + " bytes",
                 "at most " + std::to_string(left), "the file was cut short, or its header was never completed");
    const auto chunk = bytes.subspan(at + 8, size);
    if (name == "fmt ") foreign = !read_format(chunk, where, at, wav);
    if (name == "data") {
      if (foreign) return false;
      if (wav.bytes == 0) fail_sound(sound_place(where, at), "the samples stand before their format");
      const size_t frame = static_cast<size_t>(wav.bytes) * static_cast<size_t>(wav.channels);
      if (size == 0 || size % frame != 0)
        fail_sound(sound_place(where, at), "the samples are no whole number of frames", std::to_string(size) + " bytes",
                   "one or more frames of " + std::to_string(frame));
      wav.frames = static_cast<int64_t>(size / frame);
      wav.data = chunk;
      return true;
    }
    at += 8 + std::min(left, size + size % 2);
  }
  fail_sound(sound_place(where, bytes.size()), "the file ends before its samples");
}

// ITU-T G.711.
float of_mu_law(uint32_t code) {
  code = ~code & 0xFF;
  const int magnitude = static_cast<int>(((code & 15) << 3 | 0x84) << (code >> 4 & 7)) - 0x84;
  return static_cast<float>(code & 0x80 ? -magnitude : magnitude) / 32768;
}
float of_a_law(uint32_t code) {
  code ^= 0x55;
  const uint32_t exponent = code >> 4 & 7, mantissa = (code & 15) << 4;
  const int magnitude = static_cast<int>(exponent == 0 ? mantissa + 8 : (mantissa + 0x108) << (exponent - 1));
  return static_cast<float>(code & 0x80 ? magnitude : -magnitude) / 32768;
}

double eight_bytes(const Wav& wav, size_t at) {
  return std::bit_cast<double>(sound_little(wav.data, at, 4) | static_cast<uint64_t>(sound_little(wav.data, at + 4, 4)) << 32);
}

// As many numbers as `out` has room for.
void decode_wav(const Wav& wav, std::span<float> out) {
  const auto bytes = static_cast<size_t>(wav.bytes);
  const auto each = [&](auto number) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = number(i * bytes);
  };
  const auto shift = static_cast<uint32_t>(32 - 8 * bytes);
  if (wav.coding == real && bytes == 8) each([&](size_t at) { return static_cast<float>(eight_bytes(wav, at)); });
  else if (wav.coding == real) each([&](size_t at) { return std::bit_cast<float>(sound_little(wav.data, at, 4)); });
  else if (wav.coding == mu_law) each([&](size_t at) { return of_mu_law(sound_little(wav.data, at, 1)); });
  else if (wav.coding == a_law) each([&](size_t at) { return of_a_law(sound_little(wav.data, at, 1)); });
  else if (bytes == 1) each([&](size_t at) { return (static_cast<float>(sound_little(wav.data, at, 1)) - 128) / 128; });
  else if (bytes == 2) each([&](size_t at) { return static_cast<float>(static_cast<int16_t>(sound_little(wav.data, at, 2))) / 32768; });
  else each([&](size_t at) { return static_cast<float>(static_cast<int32_t>(sound_little(wav.data, at, bytes) << shift)) / 2147483648.f; });
}

SndFile open_other(std::span<const std::byte> bytes, const std::string& where) {
  if (!is_sound(bytes)) fail_sound(where, std::string("no sound of a kind that is read: ") + kSoundSuffixes);
  return {bytes, where};
}

}  // namespace

bool is_sound(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  for (const char* magic : {"fLaC", "OggS", "FORM", ".snd", "caff", "riff", "ID3", "RF64", "NIST_1A"})
    if (text.starts_with(magic)) return true;
  // MPEG 1, 2 or 2.5, layer 3, a bit rate and a sampling rate that there are.
  const auto byte = [&](size_t at) { return std::to_integer<int>(bytes[at]); };
  const bool mp3 = bytes.size() >= 4 && byte(0) == 0xFF && (byte(1) & 0xE6) == 0xE2 && (byte(1) & 0x18) != 8 && (byte(2) & 0xF0) != 0xF0 &&
                   (byte(2) & 0xF0) != 0 && (byte(2) & 0x0C) != 0x0C;
  return mp3 || is_wav(bytes);
}

bool is_sound_suffix(std::string_view suffix) {
  static constexpr std::string_view kNames[] = {"wav",  "flac", "ogg", "oga", "opus", "mp3",  "aif", "aiff",
                                                "aifc", "au",   "caf", "w64", "rf64", "nist", "sph"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    return std::equal(name.begin(), name.end(), suffix.begin(), suffix.end(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  });
}

SoundInfo sound_info(std::span<const std::byte> bytes, const std::string& where) {
  if (Wav wav; is_wav(bytes) && read_wav(bytes, where, wav)) return wav;
  const SndFile file = open_other(bytes, where);
  check_sound(file.info(), where);
  return file.info();
}

void decode_sound(std::span<const std::byte> bytes, const std::string& where, const WantedFrames& wanted, Sound& sound) {
  const auto prepare = [&](const SoundInfo& info) {
    check_sound(info, where);
    static_cast<SoundInfo&>(sound) = info;
    sound.frames = std::min(info.frames, wanted(info));
    const int64_t most = bytes.size() < size_t{2} << 20 ? kMaxOfSmall : kMaxSamples;
    if (sound.frames > most / sound.channels)
      fail_sound(where, "the sound is too long to be decoded at once",
                 std::to_string(sound.frames) + " frames of " + std::to_string(sound.channels) + " channels",
                 "at most " + std::to_string(most) + " numbers", "cut it into files");
    const auto count = static_cast<size_t>(sound.frames * sound.channels);
    if (count > sound.samples.capacity()) sound.samples = {};  // old and new are not there at once
    sound.samples.resize(count);
  };
  if (Wav wav; is_wav(bytes) && read_wav(bytes, where, wav)) {
    prepare(wav);
    decode_wav(wav, sound.samples);
  } else {
    SndFile file = open_other(bytes, where);
    prepare(file.info());
    const int64_t got = file.read(sound.samples.data(), sound.frames);
    if (got < sound.frames)
      fail_sound(where, "the sound ends too early", std::to_string(got) + " frames", std::to_string(file.info().frames) + " by its header");
  }
  const auto wrong = std::find_if(sound.samples.begin(), sound.samples.end(), [](float value) { return !std::isfinite(value); });
  if (wrong != sound.samples.end())
    fail_sound(where, "frame " + std::to_string((wrong - sound.samples.begin()) / sound.channels) + " of the sound is no finite number");
}

}  // namespace perigee
