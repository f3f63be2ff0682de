// Files of sound of all kinds against libsndfile's numbers, and damaged files.
#include <gtest/gtest.h>

#include "src/io/npy.h"
#include "src/io/sound/sound.h"
#include "tests/core/refusal.h"
#include "tests/data/sound/recordings.h"

namespace perigee {
namespace {

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

TEST(Sound, ContainersAreAsLibsndfileReadsThem) {
  NEEDS_RECORDINGS();
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
