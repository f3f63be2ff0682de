// Features of sound, on one thread; prints one JSON object. sound.py runs it and torchaudio in turns.
//   sound_bench mfcc|mel|spectrogram|mfcc_layer|mel_layer|spectrogram_layer|resample|wav [seconds]
// of 16 kHz: seconds of sound in a second of CPU time, one number a repeat. A layer is computed by its plan, where a transform is by a source.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>

#include "src/data/source.h"
#include "src/io/file.h"
#include "src/io/sound/resample.h"
#include "src/io/sound/sound.h"
#include "tests/data/wav_file.h"
#include "tests/nn/sound_layer.h"

using namespace perigee;

namespace {

constexpr int64_t kRate = 16000;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Tones and noise, 16 bits.
std::string recording(int64_t frames) {
  std::string samples;
  uint32_t noise = 1;
  for (int64_t i = 0; i < frames; ++i) {
    noise = noise * 1664525 + 1013904223;
    const double t = static_cast<double>(i) / kRate;
    const double value = 8000 * std::sin(2764 * t * (1 + .1 * std::sin(5 * t))) + static_cast<double>(noise >> 20);
    samples += {static_cast<char>(std::lround(value) & 255), static_cast<char>(std::lround(value) >> 8)};
  }
  return wav_of({.rate = kRate}, samples);
}

// Numbers as an array has them: a transform's time alone, without reading files.
Json array_of(const Sound& sound) {
  Json::Array x;
  for (const float value : sound.samples) x.push_back(static_cast<double>(value));
  Json example = Json::array(), row = Json(std::move(x));
  example.push(std::move(row));
  Json examples = Json::array();
  examples.push(std::move(example));
  return Json(Json::Object{{"type", "arrays"}, {"x", std::move(examples)}});
}

template <class F>
void print(double seconds, F once) {
  std::printf("{\"real_times\": [");
  for (int repeat = -1; repeat < 7; ++repeat) {
    const double begin = cpu_seconds();
    int count = 0;
    do once(), ++count;
    while (cpu_seconds() - begin < .3);
    if (repeat >= 0) std::printf("%s%.0f", repeat > 0 ? ", " : "", seconds * count / (cpu_seconds() - begin));
  }
  std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "mfcc";
  const int64_t seconds = argc > 2 ? std::atoll(argv[2]) : 60;
  const std::string file = recording(seconds * kRate);
  Sound sound;
  const auto decode = [&] {
    decode_sound(
        as_bytes(file), "wav", [](const SoundInfo& info) { return info.frames; }, sound);
  };
  decode();
  if (what == "wav") return print(static_cast<double>(seconds), decode), 0;
  if (what == "resample") {
    const Resampler resampler(kRate, 44100, "test");
    std::vector<float> out(static_cast<size_t>(resampler.output_frames(sound.frames)));
    return print(static_cast<double>(seconds), [&] { resampler.apply(sound.samples, out); }), 0;
  }
  if (what.ends_with("_layer")) {
    const Shape shape{1, 1, sound.frames};
    const Tensor x = Tensor::from(shape, sound.samples);
    HeardBy heard(R"({"rate":16000,"window":512,"hop":160,"unit":"samples","type":")" + what.substr(0, what.size() - 6) + "\"}", shape,
                  false);
    return print(static_cast<double>(seconds), [&] { heard(x); }), 0;
  }
  Json transform(Json::Object{{"type", what}, {"rate", kRate}, {"window", 512}, {"hop", 160}, {"unit", "samples"}});
  Json transforms = Json::array();
  transforms.push(transform);
  const Json map(Json::Object{{"type", "map"}, {"source", array_of(sound)}, {"transforms", std::move(transforms)}});
  const SourcePtr source = open_source(Config(map, "bench", ErrorKind::data), ".");
  const SourcePtr plain = open_source(Config(*map.find("source"), "bench", ErrorKind::data), ".");
  std::vector<float> out(static_cast<size_t>(source->fields()[0].shape.elements())), copy(sound.samples.size());
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(out.data())};
  print(static_cast<double>(seconds), [&] { source->read({}, slots); });
  return 0;
}
