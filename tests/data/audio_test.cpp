// Recordings: files of all kinds against libsndfile's numbers, spectra and cepstra against librosa's and HTK's, and damaged files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "kernels/sound_loops.h"
#include "src/core/host_isa.h"
#include "src/data/sound/rated.h"
#include "src/data/transform.h"
#include "src/io/archive/zip.h"
#include "src/io/npy.h"
#include "src/io/sound/resample.h"
#include "src/io/sound/sound.h"
#include "tests/core/refusal.h"
#include "tests/data/fixtures.h"
#include "tests/data/wav_file.h"
#include "tests/io/temporary.h"
#include "tests/nn/sound_layer.h"

namespace perigee {
namespace {

struct Recording {
  std::vector<float> x;
  int64_t n = -1, y = -1;
};

Recording read_recording(const DataSource& source, int64_t index, uint64_t epoch = 0) {
  Recording recording{.x = std::vector<float>(static_cast<size_t>(source.fields()[0].shape.elements()))};
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(recording.x.data()), reinterpret_cast<std::byte*>(&recording.n),
                              reinterpret_cast<std::byte*>(&recording.y)};
  source.read({.index = index, .epoch = epoch}, std::span(slots, source.fields().size()));
  return recording;
}

WantedFrames at_most(int64_t frames) {
  return [frames](const SoundInfo&) { return frames; };
}

std::string sixteen_bits(const std::vector<int>& values) {
  std::string samples;
  for (const int value : values) samples += {static_cast<char>(value), static_cast<char>(value >> 8)};
  return samples;
}

// --- Files ---------------------------------------------------------------------------------------------------------------------

TEST(Wav, RefusesWhatIsDamaged) {
  const std::string good = wav_of({}, sixteen_bits({1, -2, 3, -4}));
  const auto says = [&](const std::string& file) {
    return refusal(ErrorKind::data, [&] {
      Sound sound;
      decode_sound(as_bytes(file), "a.wav", at_most(100), sound);
    });
  };
  const auto with = [&](size_t at, const std::string& bytes) { return std::string(good).replace(at, bytes.size(), bytes); };
  EXPECT_EQ(says(good), "accepted");
  for (size_t size = 12; size < good.size(); ++size) EXPECT_NE(says(good.substr(0, size)), "accepted") << size;
  EXPECT_NE(says(good.substr(0, 50)).find("a.wav: byte 36: the chunk is longer than the file; got 8 bytes, expected at most 6"),
            std::string::npos)
      << says(good.substr(0, 50));
  EXPECT_NE(says(with(40, "\xff\xff\xff\xff")).find("longer than the file"), std::string::npos);
  EXPECT_NE(says(with(22, std::string(2, '\0'))).find("impossible number of channels; got 0"), std::string::npos);
  EXPECT_NE(says(with(24, std::string(4, '\0'))).find("impossible rate; got 0"), std::string::npos);
  EXPECT_NE(says(with(24, std::string("\x41\x42\x0f\0", 4))).find("impossible rate; got 1000001"), std::string::npos);
  EXPECT_NE(says(with(32, "\3")).find("byte 12: the size of a frame does not fit its channels; got 3, expected 2"), std::string::npos);
  EXPECT_NE(says(with(12, "junk")).find("byte 36: the samples stand before their format"), std::string::npos);
  EXPECT_NE(says(with(36, "junk")).find("byte 52: the file ends before its samples"), std::string::npos);
  EXPECT_NE(says(wav_of({}, "")).find("no whole number of frames; got 0 bytes"), std::string::npos);
  EXPECT_NE(says(wav_of({.channels = 2}, sixteen_bits({1, 2, 3}))).find("no whole number of frames; got 6 bytes"), std::string::npos);
  EXPECT_NE(
      says(wav_of({.bits = 32, .coding = 3}, std::string("\0\0\0\0\0\0\xc0\x7f", 8))).find("frame 1 of the sound is no finite number"),
      std::string::npos);
  EXPECT_NE(says("RIFF\4\0\0\0WAVE" + std::string("fmt \4\0\0\0abcd", 12)), "accepted");
}

TEST(Wav, DecodesNoMoreThanWanted) {
  Sound sound;
  decode_sound(as_bytes(wav_of({.channels = 2}, sixteen_bits({1, 2, 3, 4, 5, 6}))), "a", at_most(2), sound);
  EXPECT_EQ(sound.frames, 2);
  ASSERT_EQ(sound.samples.size(), 4u);
  EXPECT_EQ(sound.samples[3], 4 / 32768.f);
}

TEST(Resampler, KeepsAToneAndRefusesAwkwardRates) {
  for (const auto& [from, to] : {std::pair{8000, 16000}, {44100, 16000}, {16000, 11025}}) {
    const Resampler resampler(from, to, "test");
    std::vector<float> in(static_cast<size_t>(from / 2)), out(static_cast<size_t>(resampler.output_frames(from / 2)));
    const auto tone = [](size_t i, double rate) { return std::sin(2 * M_PI * 440 * static_cast<double>(i) / rate); };
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(tone(i, from));
    resampler.apply(in, out);
    for (size_t i = 500; i + 500 < out.size(); ++i) ASSERT_NEAR(out[i], tone(i, to), 1e-4) << from << " to " << to << " at " << i;
  }
  EXPECT_NE(refusal(ErrorKind::data, [] { Resampler(999983, 16000, "a.wav"); }).find("a.wav: the rate has no simple ratio"),
            std::string::npos);
}

TEST(SoundLoops, HaveTheSameBitsWithEachInstructionSet) {
  constexpr int64_t kHalf = 32, kSize = 2 * kHalf, kTimes = 37;
  uint32_t state = 1;
  const auto numbers = [&](int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& value : out) state = state * 1664525 + 1013904223, value = static_cast<float>(state >> 8) / (1 << 24) - .5f;
    return out;
  };
  const auto frames = numbers(kSoundLanes * kSize), window = numbers(kSize), angles = numbers(2 * kHalf), table = numbers(3 * kHalf);
  const auto compute = [&](Isa isa) {
    const SoundLoops& loops = sound_loops(isa);
    std::vector<float> z(kSize * kSoundLanes), out((kHalf + 1) * kSoundLanes), sums(3 * (kTimes + 1), 0);
    const float* pointers[kSoundLanes];
    for (int64_t i = 0; i < kSoundLanes; ++i) pointers[i] = frames.data() + i * kSize;
    std::vector<int32_t> places;
    for (int32_t i = 0; i < kSize; ++i) places.push_back(i * 5 % kSize);
    loops.load(pointers, window.data(), places.data(), kSize - 3, z.data());
    loops.power(kHalf, angles.data(), angles.data() + 7, z.data(), out.data());
    loops.combine(table.data(), 3, kHalf / 8, frames.data(), kTimes + 1, kTimes - 1, sums.data());
    out.insert(out.end(), sums.begin(), sums.end());
    out.resize(out.size() + kSoundLanes);
    loops.weigh(table.data(), 13, frames.data(), out.data() + out.size() - kSoundLanes);
    for (int64_t n = 1; n < kSize; ++n) out.push_back(loops.dot(frames.data(), window.data(), n));
    out.push_back(loops.logarithm(out.data(), kTimes, 4.3f, 1e-3f));
    return out;
  };
  const auto expected = compute(Isa::baseline);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) break;
    const auto got = compute(isa);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(got[i], expected[i]) << isa_name(isa) << " " << i;
  }
}

// --- The source ----------------------------------------------------------------------------------------------------------------

TEST(AudioSource, TakesClassesFromFolders) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  const SourcePtr source = open_parsed(R"({"type":"audio","folder":"sounds"})", folder.path());
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(rate_of(*source), 8000);
  EXPECT_EQ(source->fields()[0].shape, (Shape{1, 1000}));
  EXPECT_EQ(source->fields()[2].class_names, (std::vector<std::string>{"left", "right"}));
  const Recording last = read_recording(*source, 2);
  EXPECT_EQ(last.n, 700);
  EXPECT_EQ(last.y, 1);
  EXPECT_EQ(last.x[1], (7919 - 10000 + 31) / 65536.f) << "two channels are mixed";
  EXPECT_EQ(last.x[700], 0);
  const Recording whole = read_recording(*open_parsed(R"({"type":"audio","folder":"sounds","channels":2})", folder.path()), 2);
  EXPECT_EQ(whole.x[1001], 31 / 32768.f);
  EXPECT_NE(refusal(ErrorKind::data,
                    [&] { read_recording(*open_parsed(R"({"type":"audio","folder":"sounds","channels":3})", folder.path()), 0); })
                .find("got 2, expected 3"),
            std::string::npos);
  const Recording slower =
      read_recording(*open_parsed(R"({"type":"audio","folder":"sounds","rate":4000,"seconds":0.05})", folder.path()), 0);
  EXPECT_EQ(slower.n, 200);
}

TEST(AudioSource, TakesClassesFromNamesAndKeepsThemForOtherParts) {
  const TemporaryFolder folder;
  const auto put = [&](const char* name, size_t frames, uint64_t rate) {
    write_file(folder / name, as_bytes(wav_of({.rate = rate}, std::string(2 * frames, '\1'))));
  };
  put("a/yes_ann_1.wav", 100, 8000), put("a/no_ann_1.wav", 300, 8000), put("a/yes_bob_12.wav", 200, 8000),
      put("b/yes_eve_1.wav", 900, 16000);
  const SourcePtr train = open_parsed(R"({"type":"audio","folder":"a","label":"{class}_*"})", folder.path());
  EXPECT_EQ(train->fields()[2].class_names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(open_parsed(R"({"type":"audio","folder":"a","label":"{class}_*","files":"*_[0-9].wav"})", folder.path())->size(), 2);
  const Json test = Json::parse(R"({"type":"audio","folder":"b","label":"{class}_*"})", "test");
  const SourcePtr other = open_json(with_fitted(test, train->traits().fitted), folder.path());
  EXPECT_EQ(other->fields()[0].shape, (Shape{1, 300})) << "as long as the longest of the training part";
  EXPECT_EQ(read_recording(*other, 0).y, 1);
  EXPECT_EQ(read_recording(*other, 0).n, 300) << "resampled to 450 steps, of which 300 fit";
  put("b/maybe_eve_1.wav", 10, 8000);
  EXPECT_NE(refusal(ErrorKind::data, [&] { open_json(with_fitted(test, train->traits().fitted), folder.path()); })
                .find("the class 'maybe' is none of the classes"),
            std::string::npos);
  write_file(folder / "t.csv", as_bytes("label,path\nn,a/no_ann_1.wav\ny,b/yes_eve_1.wav\n"));
  const SourcePtr table = open_parsed(R"({"type":"audio","folder":".","table":"t.csv"})", folder.path());
  EXPECT_EQ(table->fields()[2].class_names, (std::vector<std::string>{"n", "y"}));
  EXPECT_EQ(read_recording(*table, 1).n, 450);
  EXPECT_NE(refusal(ErrorKind::data, [&] { open_parsed(R"({"type":"audio","folder":"a","label":"*"})", folder.path()); })
                .find("where the class stands"),
            std::string::npos);
  EXPECT_NE(refusal(ErrorKind::data, [&] { open_parsed(R"({"type":"audio","folder":"a","label":"{class}-*"})", folder.path()); })
                .find("does not fit 'label'"),
            std::string::npos);
  EXPECT_NE(refusal(ErrorKind::data, [&] { open_parsed(R"({"type":"audio","folder":"a","files":"*.mp3"})", folder.path()); })
                .find("'files' describes"),
            std::string::npos);
}

TEST(AudioTransforms, CountTheFramesThatAreThere) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  const std::string source = R"("source":{"type":"audio","folder":"sounds"}})";
  const SourcePtr mel = open_parsed(R"({"type":"map","transforms":[{"type":"mel"}],)" + source, folder.path());
  EXPECT_EQ(mel->fields()[0].shape, (Shape{40, 13}));
  const Recording last = read_recording(*mel, 2);
  EXPECT_EQ(last.n, 9) << "1 + 700 / 80";
  for (int row = 0; row < 40; ++row)
    for (int t = 9; t < 13; ++t) EXPECT_EQ(last.x[static_cast<size_t>(row * 13 + t)], 0);
  EXPECT_EQ(read_recording(*open_parsed(R"({"type":"map","transforms":[{"type":"mel","center":false}],)" + source, folder.path()), 2).n, 7);
  const SourcePtr shift = open_parsed(R"({"type":"map","transforms":[{"type":"time_shift"}],)" + source, folder.path());
  const Recording plain = read_recording(*open_parsed(R"({"type":"audio","folder":"sounds"})", folder.path()), 2);
  int later = 0;
  for (uint64_t epoch = 0; epoch < 40; ++epoch) {
    const Recording moved = read_recording(*shift, 2, epoch);
    EXPECT_TRUE(moved.n >= 1 && moved.n <= 1000) << moved.n;
    if (moved.n < 1000) {
      EXPECT_EQ(moved.x[static_cast<size_t>(moved.n - 1)], plain.x[699]);
    }
    later += moved.n > 700;
  }
  EXPECT_NEAR(later, 20, 10);
  const SourcePtr noise = open_parsed(R"({"type":"map","transforms":[{"type":"noise","least":20,"most":20}],)" + source, folder.path());
  double signal = 0, added = 0;
  const Recording noisy = read_recording(*noise, 2);
  for (size_t i = 0; i < 700; ++i) signal += std::pow(plain.x[i], 2), added += std::pow(noisy.x[i] - plain.x[i], 2);
  EXPECT_NEAR(10 * std::log10(signal / added), 20, 1);
  EXPECT_EQ(noisy.x[700], 0) << "padding has no noise";
}

TEST(AudioTransforms, ChangeSpeed) {
  const TemporaryFolder folder;
  std::vector<int> tone;
  for (int i = 0; i < 4000; ++i) tone.push_back(static_cast<int>(std::lround(10000 * std::sin(i * .2))));
  write_file(folder / "s/a.wav", as_bytes(wav_of({}, sixteen_bits(tone))));
  const auto at = [&](const std::string& percent, uint64_t epoch = 0) {
    return read_recording(
        *open_parsed(R"({"type":"map","source":{"type":"audio","folder":"s"},"transforms":[{"type":"speed","percent":)" + percent + "}]}",
                     folder.path()),
        0, epoch);
  };
  const Recording fast = at("[125]");
  EXPECT_EQ(fast.n, 3200);
  for (size_t i = 300; i < 2900; ++i) ASSERT_NEAR(fast.x[i], 10000 / 32768. * std::sin(static_cast<double>(i) * .25), 1e-4) << i;
  EXPECT_EQ(fast.x[3200], 0);
  EXPECT_EQ(at("[80]").n, 4000) << "5000, of which the field has room for 4000";
  EXPECT_EQ(at("[100]").x, read_recording(*open_parsed(R"({"type":"audio","folder":"s"})", folder.path()), 0).x);
  std::set<int64_t> lengths;
  for (uint64_t epoch = 0; epoch < 30; ++epoch) lengths.insert(at("[125,160,200]", epoch).n);
  EXPECT_EQ(lengths, (std::set<int64_t>{2000, 2500, 3200}));
  EXPECT_NE(refusal(ErrorKind::data, [&] { at("[1000]"); }).find("'percent' is out of range; got 1000, expected 25 to 400"),
            std::string::npos);
}

TEST(AudioTransforms, KeepWhatIsNoSilence) {
  const TemporaryFolder folder;
  std::vector<int> samples(4000, 1);
  const auto loud = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) samples[static_cast<size_t>(i)] = 5000 + i;
  };
  loud(800, 1200), loud(2000, 2400);
  write_file(folder / "s/a.wav", as_bytes(wav_of({}, sixteen_bits(samples))));
  const auto voice = [&](const std::string& options) {
    return read_recording(
        *open_parsed(R"({"type":"map","source":{"type":"audio","folder":"s"},"transforms":[{"type":"voice")" + options + "}]}",
                     folder.path()),
        0);
  };
  const Recording one = voice(R"(,"margin":0)");
  EXPECT_EQ(one.n, 1600);
  EXPECT_EQ(one.x[0], 5800 / 32768.f);
  EXPECT_EQ(one.x[400], 1 / 32768.f) << "a pause stays";
  EXPECT_EQ(one.x[1600], 0);
  const Recording two = voice(R"(,"margin":0,"pauses":false)");
  EXPECT_EQ(two.n, 800);
  EXPECT_EQ(two.x[400], 7000 / 32768.f);
  EXPECT_EQ(voice(R"(,"margin":20)").n, 1600 + 2 * 160);
  EXPECT_EQ(voice(R"(,"margin":20,"pauses":false)").n, 800 + 4 * 160);
  EXPECT_EQ(voice(R"(,"margin":60,"pauses":false)").n, 1600 + 2 * 480) << "margins that meet are there once";
  EXPECT_EQ(voice(R"(,"margin":10000)").n, 4000);
  EXPECT_EQ(voice(R"(,"decibels":150)").n, 4000);
}

// --- Values of other libraries --------------------------------------------------------------------------------------------------

std::string data_folder() {
  const char* folder = std::getenv("PERIGEE_DATA");
  return folder == nullptr ? "" : folder;
}

#define NEEDS_ORACLES() \
  if (data_folder().empty()) GTEST_SKIP() << "PERIGEE_DATA is not set: no expected values"

Bytes oracle_file(const std::string& name) {
  static const std::string path = data_folder() + "/oracles/audio/librosa_fsdd.npz";
  static const Bytes archive = read_file(path);
  for (const ZipEntry& entry : zip_entries(archive, path))
    if (entry.name == name + ".npy") return zip_content(archive, entry, path);
  ADD_FAILURE() << name;
  return {};
}

Tensor oracle(const std::string& name) { return parse_npy(oracle_file(name), name).to(Dtype::f64); }

// Largest difference, as a share of the largest value.
double distance(const float* got, const double* expected, int64_t rows, int64_t columns) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(got[i] - expected[i]));
  }
  return worst / largest;
}

// The file that the values were computed from, as it was written.
void write_signal(const std::string& folder) {
  const Tensor signal = oracle("signal");
  std::vector<int> samples;
  for (int64_t i = 0; i < signal.elements(); ++i) samples.push_back(static_cast<int>(std::lround(signal.data<double>()[i] * 32768)));
  write_file(folder + "/s/7_jackson_10.wav", as_bytes(wav_of({}, sixteen_bits(samples))));
}

TEST(AudioTransforms, AreLibrosas) {
  NEEDS_ORACLES();
  const TemporaryFolder folder;
  write_signal(folder.path());
  struct Case {
    const char *name, *transform;
    int64_t skip = 0;
  };
  for (const Case& each :
       {Case{"power_256_80", R"("type":"spectrogram")"}, Case{"mel", R"("type":"mel","log":"none")"}, Case{"mel_db", R"("type":"mel")"},
        Case{"mfcc13", R"("type":"mfcc")"}, Case{"mfcc13_htk_lift22", R"("type":"mfcc","lifter":22,"scale":"htk")"},
        Case{"delta", R"("type":"mfcc","deltas":1,"delta_reach":4)", 13},
        Case{"delta2", R"("type":"mfcc","deltas":2,"delta_reach":4)", 26}}) {
    const SourcePtr source =
        open_parsed(R"({"type":"map","source":{"type":"audio","folder":"s"},"transforms":[{"window":256,"hop":80,"unit":"samples",)" +
                        std::string(each.transform) + "}]}",
                    folder.path());
    const Tensor expected = oracle(each.name);
    const Recording got = read_recording(*source, 0);
    ASSERT_EQ(got.x.size() - static_cast<size_t>(each.skip * expected.shape()[1]), static_cast<size_t>(expected.elements())) << each.name;
    EXPECT_LT(distance(got.x.data() + each.skip * expected.shape()[1], expected.data<double>(), expected.shape()[0], expected.shape()[1]),
              1e-5)
        << each.name;
    // The layer of this name, on the numbers as they are.
    const Tensor signal = oracle("signal");
    const Tensor heard = heard_by(R"({"window":256,"hop":80,"unit":"samples","rate":8000,)" + std::string(each.transform) + "}",
                                  signal.to(Dtype::f32).reshape(Shape{1, 1, signal.elements()}));
    ASSERT_EQ(heard.elements(), static_cast<int64_t>(got.x.size())) << each.name;
    EXPECT_LT(
        distance(heard.data<float>() + each.skip * expected.shape()[1], expected.data<double>(), expected.shape()[0], expected.shape()[1]),
        1e-5)
        << each.name;
  }
}

// Complex numbers, which are no tensors: real parts, then imaginary ones.
std::vector<double> parts_of(const std::string& name, int64_t rows, int64_t columns) {
  const Bytes file = oracle_file(name);
  const size_t begin = 10 + std::to_integer<size_t>(file[8]) + 256 * std::to_integer<size_t>(file[9]);
  const bool by_columns = as_text(file).substr(0, begin).find("'fortran_order': True") != std::string_view::npos;
  std::vector<double> numbers(static_cast<size_t>(2 * rows * columns)), out(numbers.size());
  EXPECT_EQ(file.size() - begin, numbers.size() * sizeof(double)) << name;
  std::memcpy(numbers.data(), file.data() + begin, file.size() - begin);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const auto at = static_cast<size_t>(2 * (by_columns ? column * rows + row : row * columns + column));
      const auto to = static_cast<size_t>(row * columns + column);
      out[to] = numbers[at], out[to + numbers.size() / 2] = numbers[at + 1];
    }
  return out;
}

Recording transformed(const std::string& folder, const std::string& transform, Shape* shape = nullptr) {
  const SourcePtr source =
      open_parsed(R"({"type":"map","source":{"type":"audio","folder":"s"},"transforms":[{"unit":"samples",)" + transform + "}]}", folder);
  if (shape != nullptr) *shape = source->fields()[0].shape;
  return read_recording(*source, 0);
}

TEST(AudioTransforms, HaveLibrosasWindowsAndEnds) {
  NEEDS_ORACLES();
  const TemporaryFolder folder;
  write_signal(folder.path());
  for (const auto& [name, options] : {std::pair{"stft_256_80_hann_1", R"("window":256,"hop":80)"},
                                      {"stft_256_80_hamming_0", R"("window":256,"hop":80,"taper":"hamming","center":false)"},
                                      {"stft_512_128_blackman_1", R"("window":512,"hop":128,"taper":"blackman")"},
                                      {"stft_reflect", R"("window":256,"hop":80,"pad":"reflect")"}}) {
    Shape shape;
    const Recording got = transformed(folder.path(), R"("type":"spectrogram",)" + std::string(options), &shape);
    const std::vector<double> parts = parts_of(name, shape[0], shape[1]);
    std::vector<double> expected;
    for (size_t i = 0; i < parts.size() / 2; ++i)
      expected.push_back(parts[i] * parts[i] + parts[i + parts.size() / 2] * parts[i + parts.size() / 2]);
    EXPECT_LT(distance(got.x.data(), expected.data(), shape[0], shape[1]), 1e-5) << name;
    // The op, as functions have it, with its phases.
    const Tensor signal = oracle("signal");
    const Tensor both =
        heard_by(R"({"type":"lambda","inputs":["x"],"outputs":["y"],"program":[{"op":"stft","in":["x"],"out":["y"],"attrs":{)" +
                     std::string(options) + R"(,"power":0}}]})",
                 signal.to(Dtype::f32).reshape(Shape{1, 1, signal.elements()}));
    ASSERT_EQ(both.shape(), (Shape{1, 1, 2, shape[0], shape[1]})) << name;
    EXPECT_LT(distance(both.data<float>(), parts.data(), 2 * shape[0], shape[1]), 1e-5) << name;
  }
}

TEST(AudioTransforms, HaveLibrosasFilters) {
  NEEDS_ORACLES();
  const TemporaryFolder folder;
  write_signal(folder.path());
  const Tensor power = oracle("power_256_80");
  for (const bool htk : {false, true})
    for (const bool area : {false, true}) {
      const std::string name = std::string("melfb_40_htk") + (htk ? "1_" : "0_") + (area ? "slaney" : "None");
      const Tensor filters = oracle(name);
      const int64_t frames = power.shape()[1];
      std::vector<double> expected(static_cast<size_t>(40 * frames), 0);
      for (int64_t m = 0; m < 40; ++m)
        for (int64_t k = 0; k < 129; ++k)
          for (int64_t t = 0; t < frames; ++t)
            expected[static_cast<size_t>(m * frames + t)] += filters.data<double>()[m * 129 + k] * power.data<double>()[k * frames + t];
      const Recording got = transformed(folder.path(), std::string(R"("type":"mel","window":256,"hop":80,"log":"none","scale":")") +
                                                           (htk ? "htk" : "slaney") + R"(","equal_area":)" + (area ? "true" : "false"));
      EXPECT_LT(distance(got.x.data(), expected.data(), 40, frames), 1e-5) << name;
    }
}

TEST(AudioTransforms, MirrorShortRecordingsAndRepeatTheEndsOfTheirSlopes) {
  const TemporaryFolder folder;
  write_file(folder / "s/a.wav", as_bytes(wav_of({.bits = 32, .coding = 3}, std::string("\0\0\0\x3f\0\0\x80\xbe", 8))));
  Shape shape;
  const Recording got = transformed(folder.path(), R"("type":"spectrogram","window":8,"hop":4,"taper":"none","pad":"reflect")", &shape);
  ASSERT_EQ(shape, (Shape{5, 1}));
  EXPECT_NEAR(got.x[0], 1, 1e-6) << "four times 1/2 - 1/4";
  EXPECT_NEAR(got.x[4], 9, 1e-5) << "four times 1/2 + 1/4";
  EXPECT_EQ(transformed(folder.path(), R"("type":"mfcc","window":8,"hop":4,"mels":2,"coefficients":1,"deltas":2)").x[1], 0);
}

TEST(Resampler, IsNearSoxrs) {
  NEEDS_ORACLES();
  const Tensor expected = oracle("soxr_hq_16000"), floats = oracle("signal").to(Dtype::f32);
  const Resampler resampler(8000, 16000, "test");
  std::vector<float> out(static_cast<size_t>(expected.elements()));
  resampler.apply({floats.data<float>(), static_cast<size_t>(floats.elements())}, out);
  EXPECT_LT(distance(out.data(), expected.data<double>(), 1, expected.elements()), .02) << "filters differ near half the rate";
}

TEST(Resampler, IsScipys) {
  NEEDS_ORACLES();
  const Tensor signal = oracle("signal");
  const Tensor floats = signal.to(Dtype::f32);
  for (const auto& [name, up, down] : {std::tuple{"resample_poly_3_2", 3, 2}, {"resample_poly_441_320", 441, 320}}) {
    const Tensor expected = oracle(name);
    // The second one is of a part of the signal.
    const int64_t frames = expected.elements() * down / up;
    const Resampler resampler(down, up, "test", 10, 5, 1);
    std::vector<float> out(static_cast<size_t>(resampler.output_frames(frames)));
    ASSERT_EQ(static_cast<int64_t>(out.size()), expected.elements()) << name;
    resampler.apply({floats.data<float>(), static_cast<size_t>(frames)}, out);
    EXPECT_LT(distance(out.data(), expected.data<double>(), 1, expected.elements()), 1e-5) << name;
  }
}

TEST(AudioTransforms, AreHtks) {
  NEEDS_ORACLES();
  const std::string place = data_folder() + "/oracles/third_party/kaldi-htk/src/feat/test_data/test.wav";
  struct Case {
    const char *suffix, *transform;
    int64_t columns;
  };
  // HTK writes frame after frame, big-endian, c1 to c12 and then c0 or the energy.
  for (const Case& each : {Case{".fbank_htk.1", R"("type":"mel")", 23}, Case{".fbank_htk.2", R"("type":"mel","low":25)", 23},
                           Case{".fea_htk.1", R"("type":"mfcc","lifter":22,"deltas":2)", 39},
                           Case{".fea_htk.2", R"("type":"mfcc","lifter":22,"deltas":2,"energy":true)", 39},
                           Case{".fea_htk.3", R"("type":"mfcc","lifter":22,"deltas":2,"low":20,"energy":true)", 39}}) {
    const Bytes file = read_file(place + each.suffix);
    const SourcePtr source =
        open_parsed(R"({"type":"map","source":{"type":"audio","folder":")" + place.substr(0, place.rfind('/')) +
                    R"("},"transforms":[{"type":"scale","factor":32768},{"mels":23,"form":"htk",)" + each.transform + "}]}");
    const Recording got = read_recording(*source, 0);
    const int64_t frames = source->fields()[0].shape[1];
    ASSERT_EQ(static_cast<int64_t>(file.size()), 12 + frames * each.columns * 4) << each.suffix;
    const SourcePtr plain = open_parsed(R"({"type":"map","source":{"type":"audio","folder":")" + place.substr(0, place.rfind('/')) +
                                        R"("},"transforms":[{"type":"scale","factor":32768}]})");
    const std::vector<float> numbers = read_recording(*plain, 0).x;
    const Tensor heard = heard_by(R"({"rate":16000,"mels":23,"form":"htk",)" + std::string(each.transform) + "}",
                                  Tensor::from(Shape{1, 1, static_cast<int64_t>(numbers.size())}, numbers));
    ASSERT_EQ(heard.shape(), (Shape{1, each.columns, frames})) << each.suffix;
    for (int64_t t = 0; t < frames; ++t)
      for (int64_t c = 0; c < each.columns; ++c) {
        uint32_t bits = 0;
        for (int i = 0; i < 4; ++i)
          bits = bits << 8 | std::to_integer<uint32_t>(file[static_cast<size_t>(12 + (t * each.columns + c) * 4 + i)]);
        const float expected = std::bit_cast<float>(bits);
        const int64_t row = each.columns == 23 ? c : c / 13 * 13 + (c + 1) % 13;
        ASSERT_NEAR(got.x[static_cast<size_t>(row * frames + t)], expected, 1e-3 * std::max(1.f, std::abs(expected)))
            << each.suffix << " " << t << " " << c;
        ASSERT_NEAR(heard.data<float>()[row * frames + t], expected, 1e-3 * std::max(1.f, std::abs(expected)))
            << "the layer: " << each.suffix << " " << t << " " << c;
      }
  }
}

TEST(Sound, ContainersAreAsLibsndfileReadsThem) {
  NEEDS_ORACLES();
  const std::string folder = data_folder() + "/oracles/audio/containers/";
  for (const char* name : {"alaw.wav", "double.wav", "float.wav", "pcm_16.wav", "pcm_24.wav", "pcm_32.wav", "pcm_u8.wav", "ulaw.wav",
                           "ima_adpcm.wav", "mpeg_layer_iii.mp3", "opus.ogg", "pcm_16.aiff", "pcm_16.au", "pcm_16.caf", "pcm_16.flac",
                           "pcm_16.w64", "pcm_24.flac", "vorbis.ogg"}) {
    const Bytes file = read_file(folder + name);
    const Tensor values = parse_npy(read_file(folder + name + std::string(".npy")), name).to(Dtype::f32);
    EXPECT_TRUE(is_sound(file)) << name;
    Sound sound;
    try {
      decode_sound(file, name, at_most(1 << 20), sound);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resources) throw;
      std::printf("[ skipped ] %s: %s\n", name, error.what());
      continue;
    }
    ASSERT_EQ(static_cast<int64_t>(sound.samples.size()), values.elements()) << name;
    for (size_t i = 0; i < sound.samples.size(); ++i) ASSERT_NEAR(sound.samples[i], values.data<float>()[i], 1e-6) << name << " " << i;
    const bool opened = std::string_view(name).ends_with(".wav") || std::string_view(name).ends_with(".flac");
    if (opened) {
      EXPECT_NE(refusal(ErrorKind::data, [&] { decode_sound(std::span(file).first(file.size() / 2), name, at_most(1 << 20), sound); }),
                "accepted")
          << name;
    }
  }
}

// As python-soundfile writes and reads them: WAV whose sizes have 64 bits, and NIST's SPHERE, in which TIMIT's .wav files are.
TEST(Sound, OtherHeadsOfWavFilesAreKnown) {
  const auto little = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const std::string samples = sixteen_bits({16384, -8192});
  const std::string rf64 = "RF64" + little(0xFFFFFFFF, 4) + "WAVEds64" + little(28, 4) + little(76, 8) + little(4, 8) + little(2, 8) +
                           little(0, 4) + "fmt " + little(16, 4) + little(1, 2) + little(1, 2) + little(8000, 4) + little(16000, 4) +
                           little(2, 2) + little(16, 2) + "data" + little(0xFFFFFFFF, 4) + samples;
  std::string nist =
      "NIST_1A\n   1024\nchannel_count -i 1\nsample_rate -i 8000\nsample_n_bytes -i 2\nsample_byte_format -s2 01\nsample_sig_bits -i 16\n"
      "sample_coding -s3 pcm\nsample_count -i 2\nend_head\n";
  nist = nist + std::string(1024 - nist.size(), ' ') + samples;
  for (const std::string& file : {rf64, nist}) {
    EXPECT_TRUE(is_sound(as_bytes(file)));
    Sound sound;
    try {
      decode_sound(as_bytes(file), "a.wav", at_most(100), sound);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resources) throw;
      GTEST_SKIP() << error.what();
    }
    EXPECT_EQ(sound.samples, (std::vector<float>{0.5f, -0.25f})) << file.substr(0, 4);
  }
}

}  // namespace
}  // namespace perigee
