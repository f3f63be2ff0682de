// How pictures of a folder get their size, and what is done to them in training.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "src/core/warning.h"
#include "src/data/source.h"
#include "tests/data/fixtures.h"
#include "tests/io/pictures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string picture_refusal(const std::string& json, const std::string& folder) {
  try {
    open_parsed(json, folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    return error.what();
  }
  return "accepted";
}

std::vector<float> pixels(const DataSource& source, int64_t index, uint64_t epoch = 0, uint64_t seed = 1) {
  std::vector<float> x(static_cast<size_t>(source.fields()[0].shape.elements()));
  int64_t y = -1;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
  source.read({.index = index, .epoch = epoch, .seed = seed}, std::span(slots, source.fields().size()));
  return x;
}

// One grey picture of 12 rows and 20 columns, whose pixels count their columns.
void write_columns(const std::string& folder) {
  Picture image{.width = 20, .height = 12, .channels = 1, .pixels = {}};
  for (int i = 0; i < 240; ++i) image.pixels.push_back(std::byte(i % 20 * 10));
  write_file(folder + "/wide/1.png", png_of(image));
}
std::string wide(const std::string& more) {
  return R"({"type":"images","folder":"wide","channels":1,"scale":0.1,"size":[6,6])" + more + "}";
}

TEST(ImageSource, FitsPicturesToItsSize) {
  const TemporaryFolder folder;
  write_columns(folder.path());
  const auto row = [&](const std::string& more, int y) {
    const std::vector<float> all = pixels(*open_parsed(wide(more), folder.path()), 0);
    return std::vector<float>(all.begin() + y * 6, all.begin() + y * 6 + 6);
  };
  const std::vector<float> squashed = row(R"(,"fit":"squash")", 3);
  for (int x = 1; x < 5; ++x) EXPECT_NEAR(squashed[size_t(x)], (x + .5) * 20 / 6 - .5, .02) << "weights are shares of whole pixels";
  // Columns 4 to 15.
  const std::vector<float> middle = row(R"(,"fit":"crop")", 3);
  for (int x = 1; x < 5; ++x) EXPECT_NEAR(middle[size_t(x)], 4 + (x + .5) * 2 - .5, 1e-5);
  // 4 rows of 6, and one of bars above and below.
  EXPECT_EQ(row(R"(,"fit":"pad","fill":0.5)", 0), std::vector<float>(6, .5f));
  EXPECT_EQ(row(R"(,"fit":"pad","fill":0.5)", 5), std::vector<float>(6, .5f));
  for (const int y : {1, 4}) EXPECT_EQ(row(R"(,"fit":"pad","fill":0.5)", y), squashed);
}

TEST(ImageSource, WarnsOnceOfStretchingThatNobodyAskedFor) {
  const TemporaryFolder folder;
  write_columns(folder.path());
  int warnings = 0;
  const WarningHandler before = set_warning_handler([&](const std::string& text) {
    ++warnings;
    EXPECT_NE(text.find("20x12 pixels and is stretched to 6x6"), std::string::npos) << text;
  });
  const SourcePtr silent = open_parsed(wide(""), folder.path()), told = open_parsed(wide(R"(,"fit":"squash")"), folder.path());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pixels(*silent, 0), pixels(*told, 0));
  set_warning_handler(before);
  EXPECT_EQ(warnings, 1);
}

// Row 0 begins at the part's left edge and ends at its right one.
TEST(ImageSource, DrawsPartsByAreaAndRatio) {
  const TemporaryFolder folder;
  write_columns(folder.path());
  const SourcePtr source = open_parsed(wide(R"(,"fit":"random","area":[0.25,0.5],"ratio":[1,1])"), folder.path());
  std::map<int, int> sides, lefts;
  for (int epoch = 0; epoch < 400; ++epoch) {
    const std::vector<float> once = pixels(*source, 0, epoch);
    EXPECT_EQ(once, pixels(*source, 0, epoch)) << "no function of its key";
    const double step = (once[4] - once[1]) / 3;  // columns of the picture to one of the result
    EXPECT_TRUE(step > 7.5 / 6 && step < 11.5 / 6) << step;
    ++sides[static_cast<int>(std::lround(step * 6))];
    ++lefts[static_cast<int>(std::lround(once[2] - 2.5 * step + .5))];
  }
  EXPECT_EQ(sides.size(), 4u) << "the roots of 60 to 120";
  EXPECT_EQ(lefts.begin()->first, 0);
  EXPECT_EQ(lefts.rbegin()->first, 12);
  // Nothing of that shape fits: the middle of the nearest shape.
  const SourcePtr never = open_parsed(wide(R"(,"fit":"random","area":[1,1],"ratio":[0.5,0.5])"), folder.path());
  EXPECT_EQ(pixels(*never, 0, 1), pixels(*never, 0, 2));
}

TEST(ImageSource, RefusesHalfAQuestion) {
  const TemporaryFolder folder;
  write_columns(folder.path());
  EXPECT_NE(picture_refusal(wide(R"(,"area":[0.5,1])"), folder.path()).find("fit = \"random\""), std::string::npos);
  for (const char* area : {"[0.5]", "[0,1]", "[0.5,0.2]", "[0.5,1.5]", "[\"a\",1]"})
    EXPECT_NE(picture_refusal(wide(R"(,"fit":"random","area":)" + std::string(area)), folder.path()).find("area"), std::string::npos)
        << area;
  EXPECT_NE(picture_refusal(wide(R"(,"fit":"strech")"), folder.path()).find("fit"), std::string::npos);
}

}  // namespace
}  // namespace perigee
