// Spectra and cepstra against librosa's and HTK's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/data/transform.h"
#include "tests/data/sound/recordings.h"
#include "tests/io/temporary.h"
#include "tests/nn/sound_layer.h"

namespace perigee {
namespace {

TEST(AudioTransforms, AreLibrosas) {
  NEEDS_RECORDINGS();
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

TEST(AudioTransforms, HaveLibrosasWindowsAndEnds) {
  NEEDS_RECORDINGS();
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
  NEEDS_RECORDINGS();
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

TEST(AudioTransforms, AreHtks) {
  NEEDS_RECORDINGS();
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

}  // namespace
}  // namespace perigee
