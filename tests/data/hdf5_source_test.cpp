// Arrays of an HDF5 file as examples: what h5py wrote, and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "src/core/error.h"
#include "src/data/source.h"
#include "src/io/file.h"
#include "tests/data/fixtures.h"
#include "tests/io/hdf5_bytes.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

using namespace std::string_literals;

using namespace hdf5_bytes;

// The set /a of one axis, its elements of 8 bytes; nothing stored: all are zero.
std::string set_of(uint64_t size, const std::string& type, const std::string& stored = "") {
  const std::string shape = "\1\1"s + little(0, 6) + little(size, 8);
  const std::string layout = "\3\1"s + little(stored.empty() ? kNone : kRest, 8) + little(stored.size(), 8);
  return file_of(message(6, "\1\0\1a"s + little(kRest + stored.size(), 8)),
                 stored + header(message(1, shape) + message(3, type) + message(8, layout)));
}

const std::string kUnsigned = little(0x10, 4) + little(8, 4) + little(0, 2) + little(64, 2), kText = little(0x13, 4) + little(8, 4);

class Hdf5Source : public testing::Test {
 protected:
  Hdf5Source() { source_examples(folder_.path()); }
  SourcePtr open(const std::string& options) const {
    return open_source(Config(Json::parse(R"({"type":"hdf5","file":"a.h5")" + options + "}", "test"), "test", ErrorKind::data),
                       folder_.path());
  }
  std::string refusal(const std::string& options) const {
    try {
      open(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

TEST_F(Hdf5Source, GivesWhatH5pyWrote) {
  const SourcePtr all = open("");
  ASSERT_EQ(all->size(), 6);
  ASSERT_EQ(all->fields().size(), 2u);
  EXPECT_EQ(all->fields()[1].classes, 3);
  for (int64_t i = 0; i < 6; ++i) {
    float x[4];
    int64_t y = -1;
    std::byte* const slots[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(&y)};
    all->read({.index = i}, slots);
    for (int k = 0; k < 4; ++k) EXPECT_EQ(x[k], static_cast<float>(4 * i + k) / 4);
    EXPECT_EQ(y, i % 3);
  }
}

TEST_F(Hdf5Source, BytesOfSeveralDimensionsAreImages) {
  const SourcePtr images = open(R"(,"x":"/g/z")");
  ASSERT_EQ(images->size(), 3);
  EXPECT_EQ(images->fields()[0].shape, (Shape{1, 2, 2}));
  float x[4];
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x)};
  images->read({.index = 2}, slots);
  for (int k = 0; k < 4; ++k) EXPECT_FLOAT_EQ(x[k], static_cast<float>(8 + k) / 255);
}

TEST_F(Hdf5Source, SaysWhatIsWrong) {
  EXPECT_NE(refusal(R"(,"x":"/xx")").find("names a data set that"), std::string::npos);
  EXPECT_NE(refusal(R"(,"x":"/x","y":"/g/z")").find("another number of examples"), std::string::npos);
}

TEST_F(Hdf5Source, SaysWhatIsNoArrayOfNumbers) {
  const auto expect = [&](const std::string& file, const char* says) {
    write_file(folder_ / "a.h5", as_bytes(file));
    const std::string text = refusal("");
    EXPECT_NE(text.find(says), std::string::npos) << text;
  };
  expect(set_of(2, kUnsigned, little(1, 8) + little(uint64_t{1} << 62, 8)), "accepted");
  expect(file_of(""), "the HDF5 file has no data set at its root");
  expect(set_of(0, kUnsigned), "the data set is empty, or larger than memory may be");
  expect(set_of(uint64_t{1} << 40, kUnsigned), "the data set is no array of numbers that is read; got it claims to be far larger");
  expect(set_of(2, kText, little(0, 16)), "the data set is no array of numbers that is read");
  expect(set_of(2, kUnsigned, little(1, 8) + little(uint64_t{1} << 63, 8)), "a number does not fit 64 bits with a sign");
}

}  // namespace
}  // namespace perigee
