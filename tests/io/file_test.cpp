#include "src/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "src/io/digest.h"
#include "src/io/http.h"
#include "src/io/idx.h"
#include "src/io/lines.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

Bytes bytes_of(std::string_view text) { return {as_bytes(text).begin(), as_bytes(text).end()}; }

TEST(File, WritesWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string path = folder / "deep/er/file";
  write_file(path, as_bytes("one"));
  write_file(path, as_bytes("two"));
  EXPECT_EQ(as_text(read_file(path)), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "deep/er"), {}), 1);
  EXPECT_EQ(as_text(MappedFile(path).bytes()), "two");
  EXPECT_NE(refusal([&] { write_file(folder / "deep/er", as_bytes("a folder is there")); }).find("deep/er: cannot be replaced: "),
            std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "deep"), {}), 1);
}

TEST(LineReader, ReadsWhatIsComplete) {
  const TemporaryFolder folder;
  const std::string path = folder / "lines";
  LineReader lines(path);
  EXPECT_FALSE(lines.next()) << "the file is not there yet";
  std::ofstream(path) << "one\n\nth";
  EXPECT_EQ(lines.next(), "one");
  EXPECT_EQ(lines.next(), "");
  EXPECT_FALSE(lines.next());
  EXPECT_EQ(lines.rest(), "th");
  std::ofstream(path, std::ios::app) << "ree\nfour";
  EXPECT_EQ(lines.next(), "three");
  EXPECT_FALSE(lines.next());
  EXPECT_EQ(lines.rest(), "four");
}

TEST(LineReader, LeavesOutALineOfNoEnd) {
  const TemporaryFolder folder;
  const std::string path = folder / "lines";
  const std::string piece(LineReader::kLongest / 2, 'x');
  std::ofstream file(path);
  file << "one\n" << piece << piece << piece << piece << piece << std::flush;
  LineReader lines(path);
  EXPECT_EQ(lines.next(), "one");
  EXPECT_FALSE(lines.next());
  EXPECT_EQ(lines.rest(), "");
  file << "\ntwo\n" << std::flush;
  EXPECT_EQ(lines.next(), "two");
  EXPECT_FALSE(lines.next());
}

TEST(File, FullDiskIsAnErrorAboutResources) {
  try {
    write_file("/dev/full/x", as_bytes("x"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::resources);
  }
}

TEST(File, RefusesWhatIsNotARegularFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_file(folder / "absent"), Error);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), std::string("/dev/zero"), folder / "fifo"})
    EXPECT_NE(refusal([&] { read_file(path); }).find(path + ": is not a regular file"), std::string::npos) << path;
  write_file(folder / "big", as_bytes("12345"));
  EXPECT_NE(refusal([&] { read_file(folder / "big", 4); }).find("the file is too large; got 5 bytes, expected at most 4"),
            std::string::npos);
  EXPECT_NE(refusal([&] { write_file(folder / std::string(300, 'x'), as_bytes("x")); }).find("cannot be created: "), std::string::npos);
}

TEST(Compress, GzipRoundTripsAndIsCheckedAtEveryByte) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i * i) + "\n";
  const Bytes packed = gzip(as_bytes(text));
  EXPECT_EQ(as_text(gunzip(packed, "t", text.size())), text);
  EXPECT_THROW(gunzip(packed, "t", text.size() - 1), Error);
  for (size_t n = 0; n < packed.size(); ++n) EXPECT_THROW(gunzip(std::span(packed).first(n), "t", 1 << 20), Error) << n;
  Bytes twice = packed;
  twice.insert(twice.end(), packed.begin(), packed.end());
  EXPECT_EQ(as_text(gunzip(twice, "t", 1 << 20)), text + text);
  Bytes trailing = packed;
  trailing.push_back(std::byte{0});
  const auto unpack = [](std::span<const std::byte> bytes) { return refusal([&] { gunzip(bytes, "t", 1 << 20); }); };
  EXPECT_NE(unpack(trailing).find("something that is not gzip follows the compressed data"), std::string::npos);
  EXPECT_NE(unpack(as_bytes("hello")).find("not gzip data at byte 0"), std::string::npos);
  Bytes damaged = packed;
  damaged[packed.size() / 2] ^= std::byte{0xff};
  EXPECT_NE(unpack(damaged).find("t: the compressed data are damaged"), std::string::npos) << unpack(damaged);
}

TEST(Compress, BoundsABomb) {
  const Bytes bomb = gzip(Bytes(10 << 20));
  EXPECT_LT(bomb.size(), 20000u);
  try {
    gunzip(bomb, "bomb.gz", 1 << 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::resources);
  }
}

TEST(Compress, NamesTheOffsetOfDamage) {
  Bytes packed = gzip(as_bytes(std::string(5000, 'x') + "abcdefgh"));
  packed.back() ^= std::byte{1};  // the stored size
  try {
    gunzip(packed, "f.gz", 1 << 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("f.gz: "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("at byte " + std::to_string(packed.size())), std::string::npos) << error.what();
  }
}

TEST(Digest, MatchesPublishedValues) {
  EXPECT_EQ(md5_hex(as_bytes("")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex(as_bytes("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(xxh3_hex(as_bytes("")), "99aa06d3014798d86001c324468d497f");
  Xxh3 pieces;
  pieces.update(as_bytes("hello "));
  pieces.update(as_bytes("world"));
  EXPECT_EQ(pieces.hex(), xxh3_hex(as_bytes("hello world")));
}

TEST(FileContent, IsKeptDecompressedUntilTheFileChanges) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "x.gz", text(100000, 'q');
  write_file(path, gzip(as_bytes(text)));
  EXPECT_FALSE(FileContent::open(path, 1 << 20).from_cache());
  const FileContent again = FileContent::open(path, 1 << 20);
  EXPECT_TRUE(again.from_cache());
  EXPECT_EQ(as_text(again.bytes()), text);
  // A flipped bit in the cache is noticed; the file itself answers.
  const std::string kept = std::filesystem::directory_iterator(folder / "cache/perigee/decompressed")->path();
  Bytes damaged = read_file(kept);
  damaged[77] ^= std::byte{4};
  write_file(kept, damaged);
  const FileContent repaired = FileContent::open(path, 1 << 20);
  EXPECT_FALSE(repaired.from_cache());
  EXPECT_EQ(as_text(repaired.bytes()), text);
  write_file(path, gzip(as_bytes("new")));
  EXPECT_EQ(as_text(FileContent::open(path, 1 << 20).bytes()), "new");
}

TEST(FileContent, UnpacksZstandardAndNoBomb) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  Bytes packed;
  zstd_compress(as_bytes("a,b\n1,2\n"), 3, packed);
  write_file(folder / "t.zst", packed);
  EXPECT_EQ(as_text(FileContent::open(folder / "t.zst", 1 << 20).bytes()), "a,b\n1,2\n");
  EXPECT_TRUE(FileContent::open(folder / "t.zst", 1 << 20).from_cache());
  packed.clear();
  zstd_compress(Bytes(size_t{80} << 20), 3, packed);
  write_file(folder / "bomb.zst", packed);
  EXPECT_HAS(refusal(ErrorKind::resources, [&] { FileContent::open(folder / "bomb.zst", uint64_t{1} << 34); }),
             "bomb.zst: the decompressed data are larger than allowed");
}

TEST(Http, SaysWhyNothingCame) {
  const HttpAnswer answer = http_get("http://127.0.0.1:1/none", {.give_up_ms = 1000});
  EXPECT_EQ(answer.status, 0);
  EXPECT_FALSE(answer.problem.empty());
  EXPECT_FALSE(http_get("file:///etc/passwd").problem.empty());
}

Bytes idx(std::string_view header, size_t data) {
  Bytes bytes = bytes_of(header);
  for (size_t i = 0; i < data; ++i) bytes.push_back(std::byte(i));
  return bytes;
}

TEST(Idx, ReadsAndRefusesAtEveryByte) {
  const Bytes good = idx({"\0\0\x08\x02\0\0\0\x02\0\0\0\x03", 12}, 6);
  const IdxArray array = parse_idx(good, "t");
  EXPECT_EQ(array.shape, (Shape{2, 3}));
  EXPECT_EQ(array.data[5], std::byte{5});
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(parse_idx(std::span(good).first(n), "t"), Error) << n;
  EXPECT_THROW(parse_idx(idx({"\0\0\x08\x02\0\0\0\x02\0\0\0\x03", 12}, 7), "t"), Error);
  EXPECT_THROW(parse_idx(idx({"\0\0\x07\x01\0\0\0\x06", 8}, 6), "t"), Error);
  EXPECT_THROW(parse_idx(idx({"\0\x01\x08\x01\0\0\0\x06", 8}, 6), "t"), Error);
  EXPECT_THROW(parse_idx(idx({"\0\0\x08\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20}, 6), "t"), Error);
  EXPECT_THROW(parse_idx(idx({"\0\0\x08\x04\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20}, 0), "t"), Error);
}

TEST(Idx, ConvertsBigEndianNumbers) {
  const Bytes shorts = bytes_of({"\0\0\x0b\x01\0\0\0\x02\xff\xfe\x01\x00", 12});
  const IdxArray array = parse_idx(shorts, "t");
  ASSERT_EQ(array.dtype, Dtype::i32);
  const auto* values = reinterpret_cast<const int32_t*>(array.data.data());
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[1], 256);
  const Bytes floats = bytes_of({"\0\0\x0d\x01\0\0\0\x01\x3f\x80\0\0", 12});
  EXPECT_EQ(*reinterpret_cast<const float*>(parse_idx(floats, "t").data.data()), 1.f);
}

}  // namespace
}  // namespace perigee
