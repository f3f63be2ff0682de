// The source of recordings, and transforms that change what is heard.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "src/data/sound/rated.h"
#include "src/data/transform.h"
#include "tests/core/refusal.h"
#include "tests/data/sound/recordings.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

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

}  // namespace
}  // namespace perigee
