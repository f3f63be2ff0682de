// Damaged archives, arrays and texts: what each refusal says. That no damage crashes is for tests/fuzz.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/io/archive/tar.h"
#include "src/io/archive/zip.h"
#include "src/io/base64.h"
#include "src/io/codec/blocks.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "src/io/csv.h"
#include "src/io/idx.h"
#include "src/io/npy.h"
#include "src/io/sound/resample.h"
#include "src/io/sound/sound.h"
#include "src/io/text.h"
#include "src/io/yaml.h"

namespace perigee {
namespace {

using namespace std::string_literals;

template <class Read>
void expect_refusal(Read read, std::string_view says) {
  try {
    read();
    ADD_FAILURE() << "accepted; expected: " << says;
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find(says), std::string_view::npos) << error.what() << "\nexpected: " << says;
  }
}

std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

std::string big(uint64_t value, size_t bytes) {
  const std::string text = little(value, bytes);
  return {text.rbegin(), text.rend()};
}

// --- ZIP ---

struct Patch {
  size_t at;
  uint64_t value;
  size_t bytes;
};

// Entries "a" and, where wanted, "b" with the content "abc".
std::string archive_of(const std::vector<std::string>& names, const std::vector<Patch>& patches = {}) {
  std::vector<std::pair<std::string, Bytes>> files;
  const std::string content = "abc";
  for (const std::string& name : names) files.emplace_back(name, Bytes(as_bytes(content).begin(), as_bytes(content).end()));
  const Bytes bytes = zip_bytes(files);
  std::string text(as_text(bytes));
  for (const Patch& patch : patches) text.replace(patch.at, patch.bytes, little(patch.value, patch.bytes));
  return text;
}

void expect_no_zip(const std::string& archive, std::string_view says) {
  expect_refusal([&] { zip_entries(as_bytes(archive), "t.zip"); }, says);
}

constexpr size_t kDirectory = 34, kEnd = 81;  // of an archive of "a"

TEST(DamagedZip, SaysWhatIsWrongWithTheDirectory) {
  expect_no_zip("PK\5\6", "not a ZIP archive: it is cut short at byte 4");
  expect_no_zip(std::string(100, '\0'), "not a ZIP archive: its directory is missing");
  expect_no_zip(archive_of({"a"}, {{kDirectory, 0, 4}}), "the ZIP directory is damaged at byte 34");
  expect_no_zip(archive_of({"a"}, {{kEnd + 16, 100, 4}}), "the archive is cut short at byte 103");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 28, 5000, 2}}), "the archive is cut short");
  expect_no_zip(archive_of({"a"}, {{kEnd + 10, 0xffff, 2}}), "the ZIP64 locator is missing");
  const std::string locator = little(0x07064b50, 4) + std::string(4, '\0');
  std::string moved = archive_of({"a"}, {{kEnd + 10, 0xffff, 2}});
  moved.insert(kEnd, locator + little(9999, 8) + std::string(4, '\0'));
  expect_no_zip(moved, "the ZIP64 directory is missing");
  std::string many = archive_of({"a"}, {{kEnd + 10, 0xffff, 2}});
  many.insert(kEnd, little(0x06064b50, 4) + std::string(28, '\0') + little(70000, 8) + std::string(8, '\0') + little(kDirectory, 8) +
                        locator + little(kEnd, 8) + std::string(4, '\0'));
  expect_no_zip(many, "the archive has too many entries");
  expect_no_zip(archive_of({"a", "a"}), "two entries have the name 'a'");
  // The second entry begins where the first one does.
  expect_no_zip(archive_of({"a", "b"}, {{2 * kDirectory + 47 + 42, 0, 4}}), "two entries share bytes");
}

TEST(DamagedZip, SaysWhatIsWrongWithAnEntry) {
  expect_no_zip(archive_of({"a"}, {{kDirectory + 8, 1, 2}}), "an entry is encrypted");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 10, 99, 2}}), "an entry has the unknown compression method 99");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 42, 5, 4}}), "an entry's header is missing at byte 5");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 20, 10000, 4}, {kDirectory + 24, 10000, 4}}), "an entry is cut short");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 24, 4, 4}}), "an entry's sizes contradict each other");
  expect_no_zip(archive_of({"a"}, {{kDirectory + 10, 8, 2}, {kDirectory + 24, 0x0fffffff, 4}}),
                "an entry claims a size that deflate cannot reach");
  std::string wide = archive_of({"a"}, {{kDirectory + 24, 0xffffffff, 4}, {kDirectory + 30, 4, 2}});
  wide.insert(kEnd, little(1, 2) + little(0, 2));
  expect_no_zip(wide, "a ZIP64 field is cut short");
  const std::string other = archive_of({"a"}, {{31, 'x', 1}});
  expect_refusal([&] { zip_content(as_bytes(other), zip_entries(as_bytes(other), "t.zip")[0], "t.zip: a"); },
                 "t.zip: a: the checksum (CRC-32) differs: the archive is damaged");
  expect_refusal([] { archive_of({std::string(70000, 'a')}); }, "the archive is too large");
}

// --- tar ---

std::string tar_header(const std::string& size) {
  std::string header(512, '\0');
  header.replace(0, 1, "a");
  header.replace(124, size.size(), size);
  header[156] = '0';
  unsigned sum = 8 * ' ';
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 6, text, 6);
  header[155] = ' ';
  return header;
}

TEST(DamagedTar, SaysWhere) {
  const auto refuse = [](const std::string& archive, std::string_view says) {
    expect_refusal([&] { tar_entries(as_bytes(archive), "t.tar"); }, says);
  };
  refuse("abc", "t.tar: the archive is cut short at byte 3");
  refuse(std::string(512, 'x'), "not a tar header (its checksum differs) at byte 0");
  refuse(tar_header("none"), "the tar header has no size at byte 124");
  refuse(tar_header("00000001000"), "the archive is cut short at byte 512");
  refuse(tar_header("00000000000"), "the archive is cut short: its end marker is missing");
}

// A million files and more of no bytes: one stretch of headers that is mapped again and again.
TEST(DamagedTar, HasABoundOfFiles) {
  constexpr size_t kPart = size_t{1} << 20, kTimes = 513;
  const std::string header = tar_header("00000000000");
  std::string part;
  while (part.size() < kPart) part += header;
  const int file = ::memfd_create("headers", 0);
  ASSERT_EQ(::write(file, part.data(), part.size()), static_cast<ssize_t>(kPart));
  void* all = ::mmap(nullptr, kPart * kTimes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  for (size_t i = 0; i < kTimes; ++i)
    ASSERT_NE(::mmap(static_cast<std::byte*>(all) + i * kPart, kPart, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), MAP_FAILED);
  expect_refusal([&] { tar_entries({static_cast<const std::byte*>(all), kPart * kTimes}, "t.tar"); }, "the archive has too many files");
  ::munmap(all, kPart * kTimes);
  ::close(file);
}

// --- arrays ---

TEST(DamagedIdx, SaysWhere) {
  const auto refuse = [](const std::string& file, std::string_view says) {
    expect_refusal([&] { parse_idx(as_bytes(file), "t.idx"); }, says);
  };
  refuse("\0\0"s, "t.idx: the file is cut short at byte 2; expected an IDX header of 4 bytes");
  refuse(big(0x803, 4) + big(1, 4), "the file is cut short at byte 8; expected an IDX header of 16 bytes");
  refuse("\x1f\x8b\x08\0"s, "expected 0x00000803 for images of bytes, 0x00000801 for labels");
  refuse(big(0x803, 4) + big(0xffffffff, 4) + big(0xffffffff, 4) + big(0xffffffff, 4), "the dimensions at byte 4 are too large");
  refuse(big(0x801, 4) + big(3, 4) + "ab", "the file is cut short at byte 10");
  refuse(big(0x801, 4) + big(1, 4) + "ab", "something follows the data at byte 9");
}

std::string npy_of(const std::string& header, const std::string& data = "", char version = 1) {
  return "\x93NUMPY"s + version + '\0' + little(header.size(), version > 1 ? 4 : 2) + header + data;
}

void expect_no_array(const std::string& file, std::string_view says) {
  expect_refusal([&] { parse_npy(as_bytes(file), "t.npy"); }, says);
}

std::string with_shape(const std::string& shape) { return npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"); }

TEST(DamagedNpy, SaysWhatIsNoHeader) {
  expect_no_array("GIF89a....", "the magic number at byte 0 is not NumPy's");
  expect_no_array("\x93NUMPY\1", "the file is cut short at byte 7");
  expect_no_array("\x93NUMPY\2\0\0\0\0"s, "the file is cut short at byte 11");
  expect_no_array(npy_of("{}", "", 9), "the version at byte 6 is unknown; got 9, expected 1, 2 or 3");
  expect_no_array("\x93NUMPY\2\0"s + little(70000, 4) + std::string(70000, ' '), "the header is too long; got 70000");
  expect_no_array(npy_of("{'descr': '<f4'}").substr(0, 14), "the file is cut short at byte 14; expected a header of 16 bytes");
  expect_no_array(npy_of("['descr']"), "the header is not a NumPy header: '{' is missing");
  expect_no_array(npy_of("{'descr': '<f4' 'shape'}"), "the header is not a NumPy header");
  expect_no_array(npy_of("{'descr': '<f4'}"), "the header is not a NumPy header");
  expect_no_array(npy_of("{'descr': '<f4', 'descr': '<f4'}"), "the header has 'descr' twice");
  expect_no_array(npy_of("{'colour': '<f4'}"), "the header has an unknown key 'colour'");
  expect_no_array(npy_of("{'descr': [('a', '<f4')]}"), "the type is not a plain one: structured arrays cannot be read");
  expect_no_array(npy_of("{'descr': '<f4"), "the header ends inside a string");
  expect_no_array(npy_of("{'fortran_order': 0}"), "'fortran_order' is neither True nor False");
  expect_no_array(npy_of("{'descr': '<c8'}"),
                  "the element type cannot be read; got '<c8', expected bool, integers or floating point up to 64 bits");
}

TEST(DamagedNpy, SaysWhatIsNoArray) {
  expect_no_array(with_shape("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "the array has too many dimensions; expected at most ");
  expect_no_array(with_shape("(99999999999999999999,)"), "a dimension is too large");
  expect_no_array(with_shape("(-1,)"), "the shape is not a list of sizes");
  expect_no_array(with_shape("(1 2)"), "the shape is not a list of sizes");
  expect_no_array(with_shape("(9223372036854775807, 9223372036854775807)"), "the array is too large");
  expect_no_array(with_shape("(2,)") + "1234", "the file is cut short at byte ");
  expect_no_array(with_shape("(1,)") + "12345678", "something follows the data at byte ");
  expect_no_array(npy_of("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", std::string(8, '\xff')),
                  "element 0 does not fit into 64 signed bits; got 18446744073709551615");
  const std::string one = with_shape("(1,)") + "1234";
  const Bytes two = zip_bytes(std::vector<std::pair<std::string, Bytes>>{{"a.npy", Bytes(as_bytes(one).begin(), as_bytes(one).end())}});
  expect_refusal([&] { parse_npz(two, "t.npz", 10); }, "t.npz: the arrays are larger than allowed");
}

// --- texts ---

TEST(DamagedText, SaysWhere) {
  expect_refusal([] { from_base64("AB!D", "t"); }, "this is no base64; got damage at character 2");
  expect_refusal([] { from_base64("ABC", "t"); }, "damage at character 3");
  expect_refusal([] { parse_csv(std::string(1 << 20, ',') + ",\n", "t.csv", ',', false); }, "t.csv:1: the row has too many fields");
  const auto refuse = [](std::string_view text, std::string_view says) { expect_refusal([&] { parse_yaml(text, "t.yaml"); }, says); };
  refuse("a: !!str b", "t.yaml:1:4: tags are not allowed");
  refuse("a: &b {c: 1}\nd:\n  <<: *b", "merge keys are not allowed");
  refuse("a: .inf", "infinity and NaN are not allowed");
  refuse("a: 1\n---\nb: 2", "a second document begins");
  refuse("? [a]\n: b", "a key must be a plain string");
  refuse("a: &b 1\n? *b\n: c", "a key must be a plain string");
  refuse(std::string(65, '[') + std::string(65, ']'), "mappings and sequences are nested deeper than 64");
  expect_refusal([] { parse_yaml("[1, 2, 3]", "t.yaml", 2); }, "there are too many values");
}

TEST(DamagedVocabulary, SaysWhatIsWrong) {
  const auto refuse = [](const std::string& json, std::string_view says) {
    const Json description = Json::parse(json, "t");
    expect_refusal([&] { Vocabulary(Config(description, "t")); }, says);
  };
  refuse(R"({"vocabulary": []})", "t: 'vocabulary' has no units");
  refuse(R"({"vocabulary": ["ab"]})", "has a unit that no text has; got \"ab\", expected one character");
  refuse(R"({"vocabulary": ["a", "b", "a"]})", "has a unit twice");
}

// --- compressed data ---

TEST(DamagedCodec, SaysHowMuchIsMissing) {
  const std::string text(5000, 'a');
  Bytes room(6000);
  Bytes packed = gzip(as_bytes(text));
  expect_refusal([&] { gunzip(packed, "t.gz", 100); }, "t.gz: the decompressed data are larger than allowed; expected at most 100 bytes");
  expect_refusal([&] { inflate_raw(packed, "t.zip", 1 << 30); }, "the stated size is beyond what deflate can reach");
  const std::span<const std::byte> raw(packed.data() + 10, packed.size() - 18);  // without gzip's header and checksum
  expect_refusal([&] { inflate_raw(raw, "t.zip", 4999); }, "the decompressed size is not the stated one; got 5000, expected 4999");
  expect_refusal([&] { inflate_raw(raw, "t.zip", 5001); }, "the decompressed size is not the stated one; got 5000, expected 5001");
  expect_refusal([&] { snappy_decompress(as_bytes("\5\xff\xff"), room, "t.parquet"); }, "t.parquet: the Snappy data are damaged at byte ");
  // An xz that wants a dictionary of 1.5 GiB.
  expect_refusal([] { unxz(as_bytes("\xfd\x37zXZ\0\0\4\xe6\xd6\xb4\x46\2\0\x21\1\x27\0\0\0\xb0\xb0\x72\xeb\1\0\0"s), "t.xz", 1000); },
                 "t.xz: decompressing needs more memory than allowed (256 MiB); unpack it first");
  // Only its size counts: no byte is looked at.
  expect_refusal(
      [] {
        gzip({reinterpret_cast<const std::byte*>("x"), size_t{5} << 30});
      },
      "more than 4 GiB cannot be compressed at once; got 5368709120 bytes; write it without .gz");
  Bytes frame;
  zstd_compress(as_bytes(text), 3, frame);
  expect_refusal([&] { zstd_decompress(frame, room, "t.zst"); }, "the compressed data are fewer than said; got 5000 bytes, expected 6000");
  const auto many = [&](uint64_t limit) { return unzstd(frame, "t.zst", limit); };
  EXPECT_EQ(as_text(many(5000)), text);
  expect_refusal([&] { many(4999); },
                 "t.zst: the decompressed data are larger than allowed; expected at most 4999 bytes; unpack the file first");
  zstd_compress(as_bytes("more"), 3, frame);
  EXPECT_EQ(as_text(many(1 << 20)), text + "more") << "of two frames";
  const size_t whole = frame.size();
  frame.push_back(std::byte{1});
  expect_refusal([&] { many(1 << 20); }, "t.zst: the compressed data are damaged (Unknown frame descriptor) at byte 33");
  frame.resize(whole - 5);
  expect_refusal([&] { many(1 << 20); }, "t.zst: the compressed data end too early at byte " + std::to_string(whole - 5));
  frame[1] ^= std::byte{4};
  expect_refusal([&] { many(1 << 20); }, "t.zst: the compressed data are damaged (Unknown frame descriptor) at byte ");
}

// --- sounds ---

std::string wav_of(const std::string& format, const std::string& samples) {
  return "RIFF" + little(36 + samples.size(), 4) + "WAVEfmt " + little(format.size(), 4) + format + "data" + little(samples.size(), 4) +
         samples;
}

std::string pcm(uint64_t channels, uint64_t rate) {
  return little(1, 2) + little(channels, 2) + little(rate, 4) + little(2 * rate, 4) + little(2 * channels, 2) + little(16, 2);
}

TEST(DamagedSound, SaysWhere) {
  const auto refuse = [](const std::string& file, std::string_view says) {
    expect_refusal([&] { sound_info(as_bytes(file), "t.wav"); }, says);
  };
  refuse(wav_of(pcm(0, 8000), "abcd"), "the sound's header has an impossible number of channels; got 0, expected 1 to 64");
  refuse(wav_of(pcm(1, 0), "abcd"), "the sound's header has an impossible rate");
  refuse(wav_of("abcd", "abcd"), "the chunk 'fmt ' is too short; got 4 bytes, expected at least 16");
  refuse(wav_of(pcm(1, 8000), "abc"), "the samples are no whole number of frames; got 3 bytes, expected one or more frames of 2");
  refuse(wav_of(pcm(1, 8000), "abcd").substr(0, 46), "the file was cut short, or its header was never completed");
  expect_refusal(
      [] { Resampler(999983, 1000003, "t.wav", 16, 14, 0.9); },
      "t.wav: the rate has no simple ratio to the one that is wanted; got 999983 to 1000003; convert the sound beforehand, or choose");
  refuse("no sound at all", "no sound of a kind that is read: wav, flac");
  const std::string two_hours = wav_of(little(1, 2) + little(64, 2) + little(8000, 4) + little(8000 * 64, 4) + little(64, 2) + little(8, 2),
                                       std::string(13 << 20, '\x7f'));
  Sound sound;
  EXPECT_NO_THROW(decode_sound(
      as_bytes(two_hours), "t.wav", [](const SoundInfo& info) { return info.frames; }, sound));
  const std::string longer = wav_of(little(1, 2) + little(1, 2) + little(8000, 4) + little(8000, 4) + little(1, 2) + little(8, 2),
                                    std::string((16 << 20) + 1, '\x7f'));
  expect_refusal(
      [&] {
        decode_sound(
            as_bytes(longer), "t.wav", [](const SoundInfo& info) { return info.frames; }, sound);
      },
      "the sound is too long to be decoded at once; got 16777217 frames of 1 channels");
}

}  // namespace
}  // namespace perigee
