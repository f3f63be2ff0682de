// Boxes and masks go where their picture goes: as torchvision moves them, in every transform that moves pictures, and through record files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "src/core/error.h"
#include "src/data/records/prepare.h"
#include "src/data/transforms/carried.h"
#include "src/data/transforms/geometry.h"
#include "src/io/file.h"
#include "tests/io/pictures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

constexpr int64_t kHeight = 12, kWidth = 16;

struct Moved {
  const char* how;
  std::vector<float> boxes;  // clipped to the picture
  int64_t height, width;
  std::vector<int64_t> mask;
};
// torchvision 0.29: v2.functional of a picture of 12 x 16 with the boxes and the mask of the class below. Masks are resized by NEAREST_EXACT, as
// Pillow does it.
const std::vector<Moved> kTorchvision = {
    // clang-format off
    {"hflip", {7, 2, 15, 8, 0, 0, 16, 12, 1, 7, 6, 11.5, 11, 1.25, 12.5, 2.75}, 12, 16, {4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 3, 7, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 2, 6, 3, 7}},
    {"vflip", {1, 4, 9, 10, 0, 0, 16, 12, 10, 0.5, 15, 5, 3.5, 9.25, 5, 10.75}, 12, 16, {7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4}},
    {"crop", {0, 0, 6, 6, 0, 0, 9, 8, 7, 5, 9, 8, 0.5, 0, 2, 0.75}, 8, 9, {6, 2, 5, 1, 4, 7, 3, 6, 2, 4, 7, 3, 6, 2, 5, 1, 4, 7, 2, 5, 1, 4, 7, 3, 6, 2, 5, 7, 3, 6, 2, 5, 1, 4, 7, 3, 5, 1, 4, 7, 3, 6, 2, 5, 1, 3, 6, 2, 5, 1, 4, 7, 3, 6, 1, 4, 7, 3, 6, 2, 5, 1, 4, 6, 2, 5, 1, 4, 7, 3, 6, 2}},
    {"pad", {3, 4, 11, 10, 2, 2, 18, 14, 12, 9, 17, 13.5, 5.5, 3.25, 7, 4.75}, 16, 20, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 0, 0, 0, 0, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 0, 0, 0, 0, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 0, 0, 0, 0, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 0, 0, 0, 0, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 0, 0, 0, 0, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 0, 0, 0, 0, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 0, 0, 0, 0, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 0, 0, 0, 0, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 0, 0, 0, 0, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 0, 0, 0, 0, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 0, 0, 0, 0, 7, 3, 6, 2, 5, 1, 4, 7, 3, 6, 2, 5, 1, 4, 7, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"resize", {1.25, 1.5, 11.25, 6, 0, 0, 20, 9, 12.5, 5.25, 18.75, 8.625, 4.375, 0.9375, 6.25, 2.0625}, 9, 20, {1, 4, 7, 7, 3, 6, 2, 5, 5, 1, 4, 7, 3, 3, 6, 2, 5, 1, 1, 4, 4, 7, 3, 3, 6, 2, 5, 1, 1, 4, 7, 3, 6, 6, 2, 5, 1, 4, 4, 7, 2, 5, 1, 1, 4, 7, 3, 6, 6, 2, 5, 1, 4, 4, 7, 3, 6, 2, 2, 5, 7, 3, 6, 6, 2, 5, 1, 4, 4, 7, 3, 6, 2, 2, 5, 1, 4, 7, 7, 3, 3, 6, 2, 2, 5, 1, 4, 7, 7, 3, 6, 2, 5, 5, 1, 4, 7, 3, 3, 6, 1, 4, 7, 7, 3, 6, 2, 5, 5, 1, 4, 7, 3, 3, 6, 2, 5, 1, 1, 4, 6, 2, 5, 5, 1, 4, 7, 3, 3, 6, 2, 5, 1, 1, 4, 7, 3, 6, 6, 2, 2, 5, 1, 1, 4, 7, 3, 6, 6, 2, 5, 1, 4, 4, 7, 3, 6, 2, 2, 5, 7, 3, 6, 6, 2, 5, 1, 4, 4, 7, 3, 6, 2, 2, 5, 1, 4, 7, 7, 3}},
    {"half", {0.5, 1, 4.5, 4, 0, 0, 8, 6, 5, 3.5, 7.5, 5.75, 1.75, 0.625, 2.5, 1.375}, 6, 8, {2, 1, 7, 6, 5, 4, 3, 2, 5, 4, 3, 2, 1, 7, 6, 5, 1, 7, 6, 5, 4, 3, 2, 1, 4, 3, 2, 1, 7, 6, 5, 4, 7, 6, 5, 4, 3, 2, 1, 7, 3, 2, 1, 7, 6, 5, 4, 3}},
    {"affine", {0.592476368, 0, 13.545042, 7.6565876, 0, 0, 16, 12, 9.08989525, 6.9695816, 16, 12, 6.64020061, 0, 9.2910347, 0.0951986313}, 12, 16, {0, 7, 7, 3, 6, 4, 4, 7, 3, 5, 1, 4, 2, 2, 5, 1, 0, 5, 1, 4, 6, 2, 5, 5, 3, 6, 2, 4, 7, 3, 3, 1, 3, 3, 6, 4, 7, 7, 3, 1, 1, 4, 2, 5, 5, 1, 6, 6, 1, 4, 2, 2, 5, 1, 3, 6, 2, 5, 7, 3, 6, 1, 4, 7, 2, 4, 7, 3, 3, 1, 4, 7, 7, 5, 1, 1, 6, 2, 5, 5, 2, 5, 5, 1, 6, 6, 2, 5, 3, 3, 6, 4, 4, 7, 3, 1, 7, 3, 6, 1, 4, 7, 3, 5, 1, 4, 6, 2, 5, 1, 3, 6, 1, 1, 6, 2, 5, 5, 3, 6, 6, 2, 7, 3, 3, 1, 4, 4, 6, 4, 4, 7, 3, 1, 1, 4, 7, 2, 5, 1, 6, 6, 2, 5, 6, 2, 5, 1, 3, 6, 2, 2, 7, 3, 6, 1, 4, 7, 7, 5, 0, 0, 0, 1, 4, 4, 7, 5, 1, 1, 6, 2, 2, 5, 3, 6, 0, 0, 0, 0, 0, 0, 7, 3, 6, 2, 4, 7, 3, 5, 1, 4}},
    {"perspective", {1.96893322, 2.60300612, 9.20158482, 8.48221588, 1, 0, 16, 11.8114243, 9.9995079, 6.38314247, 15.0450554, 10.7913551, 3.91171503, 2.44433808, 5.28890371, 3.8869102}, 12, 16, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 5, 1, 4, 0, 0, 0, 0, 0, 6, 2, 5, 1, 4, 3, 4, 7, 3, 6, 2, 0, 0, 1, 4, 1, 4, 7, 3, 6, 2, 3, 2, 5, 1, 4, 7, 0, 0, 6, 7, 3, 2, 5, 1, 4, 7, 1, 4, 3, 6, 2, 5, 0, 0, 2, 5, 1, 4, 3, 6, 2, 3, 6, 2, 5, 1, 7, 3, 0, 0, 7, 3, 6, 2, 1, 4, 5, 1, 4, 7, 3, 6, 2, 3, 6, 0, 5, 1, 4, 7, 1, 7, 3, 6, 2, 5, 1, 4, 7, 1, 4, 0, 0, 6, 2, 3, 6, 2, 1, 4, 7, 3, 6, 2, 3, 6, 2, 0, 0, 6, 5, 1, 4, 7, 3, 2, 5, 1, 2, 5, 1, 4, 7, 0, 0, 4, 3, 6, 2, 5, 1, 7, 3, 4, 7, 3, 6, 2, 5, 0, 0, 2, 5, 4, 7, 3, 6, 2, 6, 2, 5, 1, 4, 7, 3, 0, 0, 7, 3, 2, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    // clang-format on
};

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

struct ObjectExample {
  std::vector<float> x, boxes;
  std::vector<int64_t> mask;
};

ObjectExample read_objects(const DataSource& source, ReadKey key = {}) {
  ObjectExample example;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) {
    const auto count = static_cast<size_t>(field.shape.elements());
    if (field.name == "mask") example.mask.resize(count), slots.push_back(reinterpret_cast<std::byte*>(example.mask.data()));
    else {
      std::vector<float>& to = field.name == "x" ? example.x : example.boxes;
      to.resize(count), slots.push_back(reinterpret_cast<std::byte*>(to.data()));
    }
  }
  source.read(key, slots);
  return example;
}

class Objects : public testing::Test {
 protected:
  // The mask is also the picture.
  void write(int64_t (*value)(int64_t x, int64_t y)) const {
    Picture picture{.width = kWidth, .height = kHeight, .channels = 1, .pixels = {}};
    for (int64_t i = 0; i < kHeight * kWidth; ++i) picture.pixels.push_back(static_cast<std::byte>(value(i % kWidth, i / kWidth)));
    write_file(folder_ / "p/a.png", png_of(picture));
    write_file(folder_ / "m/a.png", png_of(picture));
    write_file(folder_ / "b.csv",
               as_bytes("file,left,top,right,bottom,class\na.png,1,2,9,8,cat\na.png,0,0,16,12,dog\na.png,10,7,15,11.5,cat\n"
                        "a.png,3.5,1.25,5,2.75,dog\n"));
  }
  SourcePtr open(const std::string& json) const {
    return open_source(Config(Json::parse(json, "test"), "test", ErrorKind::data), folder_.path());
  }
  static std::string plain(const std::string& more = R"("size":[12,16],)") {
    return R"({"type":"objects","folder":"p","boxes":"b.csv","masks":"m","channels":1,"scale":1,"most":4,"visible":0,)" + more +
           R"("decode":"whole"})";
  }
  SourcePtr map(const std::string& transforms, const std::string& more = "") const {
    return open(R"({"type":"map",)" + more + R"("visible":0,"source":)" + plain() + R"(,"transforms":[)" + transforms + "]}");
  }
  std::string refusal(const std::string& json) const {
    try {
      open(json);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
};

int64_t striped(int64_t x, int64_t y) { return (y * 5 + x * 3) % 7 + 1; }

// Those of torchvision's boxes that are at least a pixel wide and high, with their classes.
std::vector<float> kept(const std::vector<float>& boxes) {
  std::vector<float> all;
  for (size_t i = 0; i < 4; ++i) {
    const float* box = boxes.data() + 4 * i;
    if (box[2] - box[0] < 1 || box[3] - box[1] < 1) continue;
    all.insert(all.end(), box, box + 4);
    all.push_back(static_cast<float>(i % 2));
  }
  while (all.size() < 20) all.insert(all.end(), {0, 0, 0, 0, -1});
  return all;
}

void expect_like(const ObjectExample& got, const Moved& wanted, double wrong_pixels = 0) {
  const std::vector<float> boxes = kept(wanted.boxes);
  ASSERT_EQ(got.boxes.size(), boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) EXPECT_NEAR(got.boxes[i], boxes[i], 2e-3) << wanted.how << " " << i;
  ASSERT_EQ(got.mask.size(), wanted.mask.size());
  double wrong = 0;
  for (size_t i = 0; i < got.mask.size(); ++i) wrong += got.mask[i] != wanted.mask[i];
  EXPECT_LE(wrong / static_cast<double>(got.mask.size()), wrong_pixels) << wanted.how;
}

TEST_F(Objects, MoveAsInTorchvision) {
  write(striped);
  const char* transforms[] = {R"({"type":"flip","probability":1})",
                              R"({"type":"flip","axis":"vertical","probability":1})",
                              R"({"type":"crop","size":[8,9],"random":false})",
                              R"({"type":"crop","size":[16,20],"pad":2,"random":false})",
                              R"({"type":"resize","size":[9,20]})",
                              R"({"type":"resize","size":[6,8]})"};
  for (size_t i = 0; i < std::size(transforms); ++i) {
    const SourcePtr source = map(transforms[i]);
    EXPECT_EQ(source->fields()[2].shape, (Shape{kTorchvision[i].height, kTorchvision[i].width}));
    expect_like(read_objects(*source), kTorchvision[i]);
  }
  const ObjectExample whole = read_objects(*open(plain()));
  const auto carried = [&](const PlaneMap& way) {
    ObjectExample moved{.x = {}, .boxes = std::vector<float>(20), .mask = std::vector<int64_t>(kHeight * kWidth)};
    carry_boxes(whole.boxes.data(), 4, way, kHeight, kWidth, 0, moved.boxes.data());
    carry_mask(whole.mask.data(), kHeight, kWidth, way, kHeight, kWidth, moved.mask.data());
    return moved;
  };
  const ImageSize size{1, kHeight, kWidth};
  // Pixels that lie between two others in the middle are rounded in float there.
  expect_like(carried(affine_map(size, {.degrees = 20, .scale = 1.25, .shear_x = 8, .right = 2, .down = -1})), kTorchvision[6], .02);
  expect_like(carried(perspective_map(size, {{1, 2}, {14, 0}, {15, 10}, {2, 11}})), kTorchvision[7], .02);
}

TEST_F(Objects, GoWithWhatIsTakenOfThePicture) {
  write(striped);
  // The middle of 12 x 12, then half of it.
  const SourcePtr middle = open(plain(R"("size":6,"fit":"crop",)")), bars = open(plain(R"("size":16,"fit":"pad",)"));
  const ObjectExample cut = read_objects(*middle), all = read_objects(*bars);
  EXPECT_EQ(std::vector<float>(cut.boxes.begin(), cut.boxes.begin() + 5), (std::vector<float>{0, 1, 3.5f, 4, 0}));
  EXPECT_EQ(cut.mask[7], striped(2 + 3, 3));
  EXPECT_EQ(std::vector<float>(all.boxes.begin(), all.boxes.begin() + 5), (std::vector<float>{1, 4, 9, 10, 0}));
  for (int64_t x = 0; x < 16; ++x) EXPECT_EQ(all.mask[static_cast<size_t>(x)], 0) << "a bar";
  EXPECT_EQ(all.mask[2 * 16 + 3], striped(3, 0));
}

TEST_F(Objects, AreLeftOutWhenTooLittleIsSeen) {
  write(striped);
  const auto count = [&](double visible) {
    const SourcePtr source = open(R"({"type":"map","visible":)" + std::to_string(visible) + R"(,"source":)" + plain() +
                                  R"(,"transforms":[{"type":"crop","size":[6,8],"random":false}]})");
    const ObjectExample example = read_objects(*source);
    int64_t there = 0;
    for (size_t i = 4; i < 20; i += 5) there += example.boxes[i] >= 0;
    return there;
  };
  // Rows 3 to 9, columns 4 to 12: 25 of 48, 48 of 192, 4 of 22.5; the last is cut away.
  EXPECT_EQ(count(0), 3);
  EXPECT_EQ(count(.2), 2);
  EXPECT_EQ(count(.3), 1);
  EXPECT_EQ(count(.6), 0);
}

// Every transform that moves a picture, because it exists: where the picture rises from left to right, the mask does.
TEST_F(Objects, MasksShowWhatEachTransformShows) {
  const std::map<std::string, std::string> options = {{"flip", ""},
                                                      {"crop", R"(,"size":[9,9],"pad":2)"},
                                                      {"shift", ""},
                                                      {"affine", R"(,"translate":0.2,"shear":10)"},
                                                      {"rotate", ""},
                                                      {"perspective", R"(,"probability":1)"},
                                                      {"resize", R"(,"size":[20,9],"fit":"crop")"},
                                                      {"resized_crop", R"(,"size":[10,11])"}};
  int64_t told = 0;
  std::set<std::string> movers;
  for (const auto& value : {+[](int64_t x, int64_t) { return 10 + 12 * x; }, +[](int64_t, int64_t y) { return 10 + 12 * y; }}) {
    write(value);
    for (const TransformDef* def : transform_defs()) {
      const auto found = options.find(def->type);
      SourcePtr source;
      try {
        source = map(R"({"type":")" + std::string(def->type) + "\"" + (found != options.end() ? found->second : "") + "}");
      } catch (const Error&) {  // it takes no such picture, or needs options
        EXPECT_TRUE(found == options.end()) << def->type;
        continue;
      }
      const ObjectExample still = read_objects(*open(plain()));
      double near = 0, seen = 0;
      bool moves = false;
      for (uint64_t epoch = 0; epoch < 8; ++epoch) {
        const ObjectExample got = read_objects(*source, {.index = 0, .epoch = epoch, .seed = 5});
        moves |= got.mask != still.mask;
        for (size_t i = 0; i < got.mask.size() && found != options.end(); ++i) {
          if (got.mask[i] == 0) continue;
          ++seen;
          near += std::abs(got.x[i] - static_cast<float>(got.mask[i])) <= 12;
        }
      }
      if (moves) movers.insert(def->type);
      EXPECT_TRUE(!moves || found != options.end()) << def->type << ": a case is missing here";
      if (found == options.end()) continue;
      ++told;
      EXPECT_GT(seen, 100) << def->type;
      EXPECT_GT(near, .85 * seen) << def->type << ": the mask shows another place than the picture";
    }
  }
  EXPECT_EQ(movers.size(), options.size()) << "one of them moves nothing";
  EXPECT_EQ(told, 2 * static_cast<int64_t>(options.size()));
}

TEST_F(Objects, AreReadFromPalettesAndCoco) {
  write(striped);
  write_file(folder_ / "q/a.png", png_of(gradient(3, 2, 4)));
  // Pillow's, of mode P: 0 1 2 3, 3 2 1 0.
  write_file(folder_ / "n/a.png",
             as_bytes(bytes_of("89504e470d0a1a0a0000000d494844520000000400000002020300000002c695f00000000c504c5445000000ff000000ff000909091"
                               "10dc4330000000c49444154789c639066780200013901004564919b0000000049454e44ae426082")));
  EXPECT_EQ(read_objects(*open(R"({"type":"objects","folder":"q","masks":"n","size":[2,4]})")).mask,
            (std::vector<int64_t>{0, 1, 2, 3, 3, 2, 1, 0}));
  write_file(folder_ / "coco.json",
             as_bytes(R"({"images":[{"id":7,"file_name":"train/a.png"}],"categories":[{"id":3,"name":"dog"},{"id":9,"name":"cat"}],
    "annotations":[{"image_id":7,"category_id":9,"bbox":[1,2,8,6]},{"image_id":7,"category_id":3,"bbox":[10,7,5,4.5]}]})"));
  const SourcePtr source = open(R"({"type":"objects","folder":"p","boxes":"coco.json","most":2,"size":[12,16]})");
  EXPECT_EQ(read_objects(*source).boxes, (std::vector<float>{1, 2, 9, 8, 0, 10, 7, 15, 11.5, 1}));
  EXPECT_EQ(source->traits().fitted.dump(), R"({"type":"objects","classes":["cat","dog"]})");
}

TEST_F(Objects, BecomeTheTargetOfYolo) {
  write(striped);
  const SourcePtr source = map(R"({"type":"box_grid","size":[3,4],"classes":2})");
  ASSERT_EQ(source->fields()[1].shape, (Shape{6, 3, 4}));
  const std::vector<float> grid = read_objects(*source).boxes;
  const auto cell = [&](size_t row, size_t column) {
    std::vector<float> all;
    for (size_t k = 0; k < 6; ++k) all.push_back(grid[k * 12 + row * 4 + column]);
    return all;
  };
  // Cells are four pixels wide and high. The first box has its middle at 5, 5, the last at 4.25, 2: another cell.
  EXPECT_EQ(cell(1, 1), (std::vector<float>{.25f, .5f, 2.25f, 2, 1, 0}));
  EXPECT_EQ(cell(0, 1), (std::vector<float>{.875f, .3125f, 1.25f, .6875f, 0, 1}));
  EXPECT_EQ(cell(0, 0), std::vector<float>(6));
}

TEST_F(Objects, StayOnThePictureInRecordFiles) {
  write(striped);
  const Json description = Json::parse(plain(), "test");
  records::prepare_records(*open(plain()), description, folder_ / "records", {});
  const std::string stored =
      R"({"type":"map","visible":0,"source":{"type":"records","folder":"records"},"transforms":[{"type":"flip","probability":1}]})";
  const ObjectExample prepared = read_objects(*open(stored)), direct = read_objects(*map(R"({"type":"flip","probability":1})"));
  EXPECT_EQ(prepared.boxes, direct.boxes);
  EXPECT_EQ(prepared.mask, direct.mask);
}

TEST_F(Objects, SayWhatIsWrong) {
  write(striped);
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  const auto with = [&](const char* name, const std::string& text) {
    write_file(folder_ / name, as_bytes(text));
    return refusal(R"({"type":"objects","folder":"p","size":8,"boxes":")" + std::string(name) + "\"}");
  };
  const std::string header = "file,left,top,right,bottom,class\n";
  has(refusal(R"({"type":"objects","folder":"p","size":8})"), "'boxes' and 'masks' are missing");
  has(refusal(R"({"type":"objects","folder":"p","size":8})"), "one of them, or both; without: pg.data.images");
  has(refusal(R"({"type":"objects","folder":"p","size":8,"boxes":"b.csv","most":3})"), "is less than the boxes of 'a.png'");
  has(with("w.csv", header + "b.png,1,2,3,4,cat\n"), "names a picture that is not in the folder; got 'b.png'");
  has(with("w.csv", header + "a.png,1,2,1,4,cat\n"), "w.csv:2: this is no box");
  has(with("w.csv", header + "a.png,1,2,x,4,cat\n"), "this is no box; got 'x'");
  has(with("w.csv", header + "a.png,9999990,2,9999990.2,4,cat\n"), "w.csv:2: this is no box");  // none as numbers of 32 bits
  has(with("w.csv", header + "a.png,1,2,3,2,cat\n"), "left < right and top < bottom, in pixels");
  has(with("w.csv", "file,left,top,right,bottom\na.png,1,2,3,4\n"), "the table of boxes has no column 'class'");
  has(with("w.csv", "file,left,top,right,bottom\na.png,1,2,3,4\n"), "file, left, top, right, bottom, class");
  has(with("w.json", "{}\n{}\n"), "this is no JSON of COCO");
  has(with("w.json", "{}"), "COCO's JSON has no list 'images'");
  has(with("w.json", R"({"images":[],"categories":[]})"), "COCO's JSON has no list 'annotations'");
  has(with("w.json", R"({"images":[{"id":1}]})"), "an element of 'images' lacks id or file_name");
  has(with("w.json", R"({"images":[],"categories":[],"annotations":[{"image_id":1}]})"),
      "annotations[1]: the annotation is of no known image or category, or has no box");
  has(refusal(R"({"type":"objects","folder":"p","size":8,"boxes":"b.csv","classes":["cat","cow"]})"),
      "the class of the box is none of the classes; got 'dog'");
  const std::string moved = refusal(R"({"type":"map","source":)" + plain() + R"(,"transforms":[{"type":"rand_augment"}]})");
  has(moved, "moves pictures, and what lies on them cannot follow");
  has(moved, "flip, crop, shift, rotate, affine, perspective, resize or resized_crop");
  const std::string gridded =
      refusal(R"({"type":"map","source":)" + plain() + R"(,"transforms":[{"type":"box_grid","field":"x","size":3,"classes":2}]})");
  has(gridded, "has no boxes");
  has(gridded, "the field boxes of pg.data.objects");
  std::string many = header;
  for (int i = 0; i <= 65536; ++i) many += "a.png,1,2,3,4,k" + std::to_string(i) + "\n";
  has(with("w.csv", many), "the boxes have too many classes");
  write_file(folder_ / "m/a.png", png_of(gradient(3, 12, 16)));
  try {
    read_objects(*open(plain()));
    ADD_FAILURE() << "a mask in colour";
  } catch (const Error& error) {
    has(error.what(), "the mask is no PNG of classes");
  }
}

}  // namespace
}  // namespace perigee
