#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "src/core/warning.h"
#include "src/data/loader.h"
#include "src/data/source.h"
#include "src/io/codec/compress.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string mnist_refusal(const std::string& json) {
  try {
    open_parsed(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string real_data() {
  const char* folder = std::getenv("PERIGEE_DATA");
  return folder == nullptr ? "" : folder;
}

#define NEEDS_REAL_DATA() \
  if (real_data().empty()) GTEST_SKIP() << "PERIGEE_DATA is not set: no real data"

TEST(Mnist, HasThePublishedStatistics) {
  NEEDS_REAL_DATA();
  const TemporaryFolder folder;
  const CacheFolder cache(folder.path());
  const SourcePtr train = open_parsed(R"({"type":"mnist"})"), test = open_parsed(R"({"type":"mnist","part":"test"})");
  ASSERT_EQ(train->size(), 60000);
  ASSERT_EQ(test->size(), 10000);
  ASSERT_TRUE(train->traits().cheap);
  EXPECT_EQ(train->fields()[0].shape, (Shape{1, 28, 28}));
  EXPECT_EQ(train->fields()[1].classes, 10);
  double sum = 0, squares = 0;
  int counts[10] = {};
  Loader loader(train, {.batch = 500, .threads = 0});
  for (int b = 0; b < 120; ++b) {
    const Batch& batch = loader.next();
    for (int64_t i = 0; i < batch.size * 784; ++i) {
      const double v = batch.fields[0].data<float>()[i];
      sum += v;
      squares += v * v;
    }
    for (int64_t i = 0; i < batch.size; ++i) ++counts[batch.fields[1].data<int64_t>()[i]];
  }
  const double n = 60000.0 * 784, mean = sum / n;
  EXPECT_NEAR(mean, .1307, 1e-4);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), .3081, 1e-4);
  EXPECT_EQ(counts[1], 6742);
  EXPECT_EQ(counts[5], 5421);
}

TEST(Mnist, IsDecompressedOnlyOnce) {
  NEEDS_REAL_DATA();
  const TemporaryFolder folder;
  const CacheFolder cache(folder.path());
  const auto written = [&] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file()) times[entry.path()] = entry.last_write_time();
    return times;
  };
  open_parsed(R"({"type":"mnist"})");
  const auto first = written();
  ASSERT_FALSE(first.empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // more than a step of the file system's clock
  open_parsed(R"({"type":"mnist"})");
  EXPECT_EQ(written(), first);
}

TEST(Mnist, DamagedFileIsAnErrorAndNotAbsence) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::string data = folder / "data";
  const Environment environment("PERIGEE_DATA", data.c_str());
  std::filesystem::create_directories(data + "/mnist");
  write_file(data + "/mnist/t10k-images-idx3-ubyte.gz", gzip(as_bytes("not an image")));
  write_file(data + "/mnist/t10k-labels-idx1-ubyte.gz", gzip(as_bytes("not a label")));
  EXPECT_NE(mnist_refusal(R"({"type":"mnist","part":"test"})").find("MD5 differs"), std::string::npos);
  const Bytes whole = gzip(as_bytes("cut short"));
  write_file(data + "/mnist/t10k-images-idx3-ubyte.gz", std::span(whole).first(12));
  EXPECT_NE(mnist_refusal(R"({"type":"mnist","part":"test"})").find("at byte 12"), std::string::npos);
  write_file(data + "/mnist/t10k-images-idx3-ubyte.gz", as_bytes("no gzip at all"));
  EXPECT_NE(mnist_refusal(R"({"type":"mnist","part":"test"})").find("not gzip"), std::string::npos);
}

TEST(Mnist, DigitsStandInWithAWarningWhenNobodyHasIt) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const Environment environment("PERIGEE_DATA", nullptr), proxy("https_proxy", "http://127.0.0.1:1"),
      plain("http_proxy", "http://127.0.0.1:1");
  std::string warning;
  const WarningHandler before = set_warning_handler([&](const std::string& text) { warning += text; });
  const SourcePtr source = open_parsed(R"({"type":"mnist","part":"test"})");
  set_warning_handler(before);
  EXPECT_EQ(source->size(), 10000);
  EXPECT_NE(warning.find("digits"), std::string::npos);
  EXPECT_NE(source->traits().description.find("digits"), std::string::npos);
  EXPECT_NE(mnist_refusal(R"({"type":"mnist","stand_in":false})").find("PERIGEE_DATA"), std::string::npos);
  EXPECT_NE(mnist_refusal(R"({"type":"mnist","part":"trian"})").find("did you mean 'train'"), std::string::npos);
  EXPECT_NE(mnist_refusal(R"({"type":"mnst"})").find("did you mean 'mnist'"), std::string::npos);
  EXPECT_NE(mnist_refusal(R"({"type":"digits","sise":10})").find("did you mean 'size'"), std::string::npos);
}

TEST(Digits, AreDeterministicDistinctAndReadable) {
  const SourcePtr source = open_parsed(R"({"type":"digits","size":50,"seed":3})");
  std::vector<float> image(784), again(784), other(784);
  int64_t label = 0;
  const auto read = [&](int64_t index, uint64_t epoch, std::vector<float>& into) {
    std::byte* const slots[] = {reinterpret_cast<std::byte*>(into.data()), reinterpret_cast<std::byte*>(&label)};
    source->read({.index = index, .epoch = epoch, .seed = 9}, slots);
  };
  int classes[10] = {};
  for (int i = 0; i < 50; ++i) {
    read(i, 0, image);
    ++classes[label];
    double ink = 0;
    for (float v : image) {
      ASSERT_TRUE(v >= 0 && v <= 1);
      ink += v;
    }
    EXPECT_GT(ink, 20) << label;
    EXPECT_LT(ink, 320) << label;
  }
  read(7, 0, image);
  read(7, 0, again);
  read(7, 1, other);
  EXPECT_EQ(image, again);
  EXPECT_NE(image, other) << "endless: other digits in the next epoch";
  for (int count : classes) EXPECT_LT(count, 20);
}

}  // namespace
}  // namespace perigee
