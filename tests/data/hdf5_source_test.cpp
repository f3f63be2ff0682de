// Arrays of an HDF5 file as examples: what h5py wrote, and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "src/core/error.h"
#include "src/data/source.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

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

}  // namespace
}  // namespace perigee
