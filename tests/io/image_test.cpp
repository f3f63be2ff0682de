// Pictures beside what Pillow and torchvision made of them: $PERIGEE_DATA/oracles/images. The kinds that are not there are made here.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include "src/core/error.h"
#include "src/io/base64.h"
#include "src/io/image.h"
#include "src/io/npy.h"
#include "tests/io/pictures.h"

namespace perigee {
namespace {

using namespace std::string_literals;

std::string oracle(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  return std::string(folder == nullptr ? "$PERIGEE_DATA" : folder) + "/oracles/images/" + name;
}
#define NEEDS_ORACLE() \
  if (!file_exists(oracle("expected.npz"))) GTEST_SKIP() << oracle("expected.npz") << " is not there"

std::map<std::string, Tensor> expectations() {
  const auto arrays = parse_npz(read_file(oracle("expected.npz")), "expected.npz");
  return {arrays.begin(), arrays.end()};
}

Picture decoded(std::span<const std::byte> bytes, int64_t channels = 3) {
  Picture image;
  decode_image(bytes, "test", channels, image);
  return image;
}

std::string image_refusal(std::span<const std::byte> bytes, int64_t channels = 3) {
  try {
    decoded(bytes, channels);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    return error.what();
  }
  return "accepted";
}

struct Difference {
  int most = 0;
  int64_t differing = 0, beyond_one = 0, values = 0;
};
// Channels together here, apart there.
Difference difference(const Picture& image, const Tensor& planes) {
  Difference result{.values = planes.elements()};
  const int64_t n = image.width * image.height, c = image.channels;
  EXPECT_EQ(n * c, planes.elements());
  if (n * c != planes.elements()) return {.most = 256};
  for (int64_t i = 0; i < n * c; ++i) {
    const int off = std::abs(std::to_integer<int>(image.pixels[static_cast<size_t>(i)]) - planes.data<uint8_t>()[i % c * n + i / c]);
    result.most = std::max(result.most, off);
    result.differing += off > 0;
    result.beyond_one += off > 1;
  }
  return result;
}

TEST(ImageOracle, EveryFileIsDecodedAsExpected) {
  NEEDS_ORACLE();
  const auto expected = expectations();
  const std::tuple<const char*, const char*, int> files[] = {
      {"photo.png", "photo", 0},          {"interlace.png", "photo", 0},      {"photo.bmp", "photo", 0},
      {"photo.tif", "photo", 0},          {"lossless.webp", "photo", 0},      {"lossy.webp", "webp_lossy", 0},
      {"palette.png", "palette_rgb", 0},  {"q90_420.jpg", "jpeg_q90_420", 0}, {"q75_422.jpg", "jpeg_q75_422", 0},
      {"q95_444.jpg", "jpeg_q95_444", 0}, {"restart.jpg", "jpeg_restart", 0}, {"progressive.jpg", "jpeg_progressive", 0},
  };
  for (const auto& [file, key, most] : files) {
    const Difference off = difference(decoded(read_file(oracle(file))), expected.at(key));
    EXPECT_LE(off.most, most) << file << ": " << off.differing << " of " << off.values << " differ";
  }
  EXPECT_EQ(difference(decoded(read_file(oracle("gray.jpg")), 1), expected.at("jpeg_gray")).most, 0);
  EXPECT_EQ(difference(decoded(read_file(oracle("photo.png")), 1), expected.at("gray")).beyond_one, 0);
  for (const char* file : {"photo.bmp", "photo.tif", "lossless.webp"})
    EXPECT_EQ(decoded(read_file(oracle(file)), 1).pixels, decoded(read_file(oracle("photo.png")), 1).pixels) << file;
}

// gray16.png counts its pixels, gray_alpha.png is the grey picture, all of it opaque.
TEST(ImageOracle, SixteenBitsAndAlpha) {
  NEEDS_ORACLE();
  const Picture deep = decoded(read_file(oracle("gray16.png")), 1);
  for (int i = 0; i < 131 * 97; ++i) ASSERT_EQ(std::to_integer<int>(deep.pixels[static_cast<size_t>(i)]), (i * 255 + 32767) / 65535) << i;
  const auto expected = expectations();
  EXPECT_EQ(difference(decoded(read_file(oracle("gray_alpha.png")), 1), expected.at("gray")).beyond_one, 0);
}

TEST(ImageOracle, JpegsAtAHalfAQuarterAnEighth) {
  NEEDS_ORACLE();
  const auto expected = expectations();
  const Bytes file = read_file(oracle("q90_420.jpg"));
  for (const int d : {2, 4, 8}) {
    Picture image;
    const WantedPart wanted{[](int64_t h, int64_t w) { return ImagePart{0, 0, double(h), double(w)}; }, 65 / d, 48 / d};
    const ImagePart part = decode_part(file, "test", 3, wanted, image);
    EXPECT_EQ(difference(image, expected.at("jpeg_q90_420_scaled_1_" + std::to_string(d))).most, 0) << d;
    EXPECT_EQ(part.height, 131. / d);
  }
}

TEST(ImageOracle, PartsOfAJpegAreThoseOfTheWhole) {
  NEEDS_ORACLE();
  for (const char* name : {"q90_420.jpg", "q75_422.jpg", "q95_444.jpg", "progressive.jpg", "restart.jpg", "gray.jpg"}) {
    const Bytes file = read_file(oracle(name));
    const Picture whole = decoded(file);
    for (int i = 0; i < 60; ++i) {
      const int top = i * 37 % 110, left = i * 23 % 80, height = 1 + i * 13 % (131 - top), width = 1 + i * 29 % (97 - left);
      Picture image;
      const WantedPart wanted{[&](int64_t, int64_t) {
                                return ImagePart{double(top), double(left), double(height), double(width)};
                              },
                              60, 60};
      const ImagePart part = decode_part(file, "test", 3, wanted, image);
      int differing = 0;
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < 3 * width; ++x)
          differing += image.pixels[size_t((part.top + y) * double(image.width) + part.left) * 3 + x] !=
                       whole.pixels[size_t((top + y) * 97 + left) * 3 + x];
      ASSERT_EQ(differing, 0) << name << " " << top << " " << left << " " << height << " " << width;
    }
  }
}

int64_t beyond_one(const std::vector<float>& planes, const Tensor& expected) {
  int64_t count = 0;
  EXPECT_EQ(static_cast<int64_t>(planes.size()), expected.elements());
  for (size_t i = 0; i < planes.size(); ++i) count += std::abs(planes[i] - static_cast<float>(expected.data<uint8_t>()[i])) > 1.5f;
  return count;
}

// Both ways, antialiased; torchvision and Pillow round their weights to 1/2^15 or so.
TEST(ImageOracle, ResizesAsTorchvisionAndPillow) {
  NEEDS_ORACLE();
  const auto expected = expectations();
  const Picture photo = decoded(read_file(oracle("photo.png")));
  const std::tuple<const char*, int, int> sizes[] = {
      {"resize_bilinear_64x48_aa", 64, 48}, {"pil_resize_bilinear_64x48", 64, 48}, {"resize_bilinear_200x150_aa", 200, 150}};
  for (const auto& [key, height, width] : sizes) {
    std::vector<float> planes(static_cast<size_t>(3 * height * width), -1);
    resize_image(photo, height, width, 1, planes.data());
    EXPECT_EQ(beyond_one(planes, expected.at(key)), 0) << key;
  }
}

// A part is what a picture of it alone gives: nothing around it counts.
TEST(Images, APartIsResizedAsIfItWereAll) {
  const Picture whole = gradient(3, 40, 37);
  for (const auto& [top, left, height, width] : {std::array{0, 0, 40, 37}, {3, 5, 20, 9}, {39, 36, 1, 1}, {7, 0, 33, 30}}) {
    Picture part{.width = width, .height = height, .channels = 3, .pixels = {}};
    for (int y = 0; y < height; ++y) {
      const auto from = whole.pixels.begin() + ((top + y) * 37 + left) * 3;
      part.pixels.insert(part.pixels.end(), from, from + width * 3);
    }
    std::vector<float> one(3 * 11 * 13), other(3 * 12 * 14, -1);
    resize_image(part, 11, 13, .5f, one.data());
    resize_part(whole, {double(top), double(left), double(height), double(width)}, 11, 13, .5f, other.data(), 12 * 14, 14);
    for (int i = 0; i < 3 * 11 * 13; ++i)
      ASSERT_FLOAT_EQ(one[size_t(i)], other[size_t(i / 143 * 168 + i % 143 / 13 * 14 + i % 13)]) << top << " " << i;
  }
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2) bytes.push_back(std::byte(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// As Pillow 13 writes and reads them: the sum of the bytes, each times its number mod 251 plus 1.
TEST(Images, FirstFrameOfAGif) {
  const std::tuple<size_t, int64_t, const char*> files[] = {
      {3 * 32 * 32, 48820014,
       "474946383761200020008100000905ff2e60f253bbe57816d82c00000000200020000008ff00070810102000808300040a14b070e0800002"
       "0140149090e1c1010028162c8830e3c0000c0b0e180952e1478c0e096eb42810a4ca81041f423438f0e0cc8709316604991062449410137a"
       "7ca830a7448a0e650635387122469f2b85168439122143853a318ec41992a844835549ba044b3162cd9617339294689669d59006852224ca"
       "f0eace8d3e53d2cc6814e75b92556dda3c99f42253bc222dceac8b9260ddb8375d622d4c91afc5980dcf3e56bb536dddae479132d6e998e0"
       "cec687ab96ccc9b5e3429c47396aa46a9526c9ba6c2b427dfc373668a67d31b7c43d756a59c8310707d5fa55a164c542e1be6efe35f6eac5"
       "4e3f1e849933a6f4af57251f85cdfd766ae0d9157de3746999b9e6b88e1beef55832b04b8b124f6fcc5972e6f6edb669b5116a481de6d052"
       "b991b7de65a379471a4b37b1a5534fe1f937d9555445f890469c05b55d4d988d675c7c9f81241b6eb939c6df861cd577d77dfc21b5d57f7c"
       "3596df4f1cd694df68fb99d8d0869f6964e24bb665281e59863d25e445cea1945140003b"},
      {3 * 16 * 17, 12363723,  // interlaced
       "474946383761100011008100000905ff2e60f253bbe57816d82c000000001000110040085e0001041030402041830507263ca810a1c38610"
       "194a5c48f1e1448b0b151e4c68304047821b0576fc3820a4c7812705682cc811a5c19703610a0060f060cd823565ea8c7993e6409b3f77ce"
       "8cc9f3274ea33e050c5d2a342950a547950604003b"}};
  for (const auto& [size, expected, text] : files) {
    const Bytes file = from_hex(text);
    const Picture image = decoded(file);
    ASSERT_EQ(image.pixels.size(), size);
    int64_t sum = 0;
    for (size_t i = 0; i < size; ++i) sum += std::to_integer<int64_t>(image.pixels[i]) * static_cast<int64_t>(i % 251 + 1);
    EXPECT_EQ(sum, expected);
    for (size_t n = 0; n + 3 < file.size(); ++n) EXPECT_NE(image_refusal(std::span(file).first(n)), "accepted") << n;
  }
}

std::string number(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
  return text;
}

// A file of 5 x 2 pixels, 0xff0000 0x00ff00 ... by `pixels`, rows of 4-byte words.
std::string bmp_of(int bits, int32_t height, uint32_t coding, const std::string& colours, const std::string& pixels) {
  return "BM" + number(0, 8) + number(static_cast<uint32_t>(54 + colours.size()), 4) + number(40, 4) + number(5, 4) +
         number(static_cast<uint32_t>(height), 4) + number(1, 2) + number(static_cast<uint32_t>(bits), 2) + number(coding, 4) +
         number(0, 20) + colours + pixels;
}

TEST(Images, BmpOfEveryKind) {
  const auto red = [](const std::string& file) {
    const Picture image = decoded(as_bytes(file));
    std::string rows;
    for (size_t i = 0; i < 10; ++i) rows += static_cast<char>('0' + std::to_integer<int>(image.pixels[3 * i]) / 85);
    return rows;
  };
  const std::string black = number(0, 4), white = number(0xffffff, 4);
  EXPECT_EQ(red(bmp_of(1, 2, 0, black + white, number(0xa8, 4) + number(0x08, 4))), "0000330303") << "the lowest row is first";
  EXPECT_EQ(red(bmp_of(1, -2, 0, black + white, number(0xa8, 4) + number(0x08, 4))), "3030300003");
  const std::string four = black + white + number(0x550000, 4) + number(0xaa0000, 4) + std::string(48, '\0');
  EXPECT_EQ(red(bmp_of(4, -2, 0, four, "\x12\x32\x10"s + number(0, 1) + "\x01\x23"s + number(0, 2))), "3121303120");
  EXPECT_EQ(red(bmp_of(8, -2, 0, four + std::string(960, '\0'), "\1\2\3\2\1"s + number(0, 3) + "\0\1\2\3\0"s + number(0, 3))),
            "3121303120");
  std::string of16, of565, of24, of32;
  for (const int r : {3, 1, 2, 1, 3, 0, 3, 1, 2, 0}) {
    const auto part = [&](uint32_t most) { return (static_cast<uint32_t>(r) * most + 2) / 3; };
    of16 += number(part(31) << 10 | 7, 2), of565 += number(part(31) << 11 | 7, 2), of24 += number(part(255) << 16 | 7, 3),
        of32 += number(part(255) << 16 | 7, 4);
    if (of32.size() == 20) of16 += "zz", of565 += "zz", of24 += "z";
  }
  of24 += 'z', of16 += "zz", of565 += "zz";
  EXPECT_EQ(red(bmp_of(16, -2, 0, "", of16)), "3121303120");
  EXPECT_EQ(red(bmp_of(16, -2, 3, number(0xf800, 4) + number(0x7e0, 4) + number(0x1f, 4), of565)), "3121303120");
  EXPECT_EQ(red(bmp_of(24, -2, 0, "", of24)), "3121303120");
  const std::string file = bmp_of(32, -2, 0, "", of32);
  EXPECT_EQ(red(file), "3121303120");
  for (size_t n = 18; n < file.size(); ++n)
    EXPECT_NE(image_refusal(as_bytes(file).first(n)).find("the BMP is damaged: it is cut short"), std::string::npos) << n;
  EXPECT_NE(image_refusal(as_bytes(bmp_of(7, 2, 0, four, ""))).find("unknown size"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes(bmp_of(8, 2, 3, four, ""))).find("unknown kind"), std::string::npos);
}

// Runs, pixels in turns, single pixels, the end of a row and a jump; the lowest row is first. As Pillow reads them.
TEST(Images, BmpInRuns) {
  const std::string four = number(0, 4) + number(0xffffff, 4) + number(0x550000, 4) + number(0xaa0000, 4);
  const auto red = [&](int bits, uint32_t coding, const std::string& runs) {
    const Picture image = decoded(as_bytes(bmp_of(bits, 2, coding, four + std::string(bits == 8 ? 1008 : 48, '\0'), runs)));
    std::string rows;
    for (size_t i = 0; i < 10; ++i) rows += static_cast<char>('0' + std::to_integer<int>(image.pixels[3 * i]) / 85);
    return rows;
  };
  EXPECT_EQ(red(8, 1, "\2\1\0\3\3\2\1\0\0\0\1\3\0\2\2\0\1\1\0\1"s), "2003033213");
  EXPECT_EQ(red(4, 2, "\5\x12\0\0\0\5\x32\x10\x30\0\0\1"s), "2130231313");
  EXPECT_EQ(red(4, 2, "\5\x12\0\0\0\5\x32\x10\x30\0"s), "2130231313") << "full without a mark of the end";
  const auto refused = [&](const std::string& runs) {
    return image_refusal(as_bytes(bmp_of(4, 2, 2, four + std::string(48, '\0'), runs)));
  };
  EXPECT_NE(refused("\6\x12\0\1"s).find("the BMP is damaged: a run leads out of it"), std::string::npos);
  EXPECT_NE(refused("\0\2\0\2\1\x12\0\1"s).find("a run leads out of it"), std::string::npos);
  EXPECT_NE(refused("\5\x12"s).find("it is cut short"), std::string::npos);
  EXPECT_NE(refused("\5\x12\0\0\4\x12"s).find("it is cut short"), std::string::npos) << "not yet full";
  EXPECT_NE(image_refusal(as_bytes(bmp_of(4, -2, 2, four + std::string(48, '\0'), "\5\x12\0\0\5\x12\0\1"s)))
                .find("the BMP is damaged: it has runs from above, and runs lead from below"),
            std::string::npos);
  EXPECT_NE(image_refusal(as_bytes(bmp_of(8, 2, 2, four, ""))).find("unknown kind"), std::string::npos);
}

// Where EXIF says that the first row and column are to be seen (JEITA CP-3451, tag 274).
TEST(Images, AreTurnedUprightByExif) {
  const Bytes plain = jpeg_of(gradient(3, 16, 24));
  const Picture stored = decoded(plain);
  const auto pixel = [](const Picture& image, bool bottom, bool right) {
    const int64_t at = (bottom ? image.height - 1 : 0) * image.width + (right ? image.width - 1 : 0);
    return std::vector<std::byte>(image.pixels.begin() + 3 * at, image.pixels.begin() + 3 * at + 3);
  };
  // For each orientation: is the first pixel below, right? The last one of the first row?
  const bool seen[8][4] = {{0, 0, 0, 1}, {0, 1, 0, 0}, {1, 1, 1, 0}, {1, 0, 1, 1}, {0, 0, 1, 0}, {0, 1, 1, 1}, {1, 1, 0, 1}, {1, 0, 0, 0}};
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big : {false, true}) {
      const std::string code(1, static_cast<char>(orientation));
      const std::string exif = big ? "MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0"s + code + "\0\0\0\0\0\0"s
                                   : "II*\0\x08\0\0\0\1\0\x12\x01\3\0\1\0\0\0"s + code + "\0\0\0\0\0\0\0"s;
      std::string file(as_text(plain));
      file.insert(2, "\xff\xe1\0"s + static_cast<char>(8 + exif.size()) + "Exif\0\0"s + exif);
      const Picture image = decoded(as_bytes(file));
      EXPECT_EQ(image.width, orientation < 5 ? 24 : 16);
      const bool* at = seen[orientation - 1];
      EXPECT_EQ(pixel(image, at[0], at[1]), pixel(stored, false, false)) << orientation;
      EXPECT_EQ(pixel(image, at[2], at[3]), pixel(stored, false, true)) << orientation;
      for (size_t n = 0; n < 40; ++n) image_refusal(as_bytes(file).first(n));  // a damaged block of EXIF is no reason to crash
    }
}

// A few bytes that promise much are refused before anything is allocated.
// Pillow: Image.fromarray([[red, green, blue], [9, 99, 200]]).save(..., "WEBP", lossless=True, exif={274: 6}); ImageOps.exif_transpose of it.
TEST(Images, WebpsAreTurnedUprightByExif) {
  const std::string file = from_base64(
      "UklGRnwAAABXRUJQVlA4WAoAAAAIAAAAAgAAAQAAVlA4TDsAAAAvAkAAAC9AJEAC0f/RMU7zBpG2zfD8s4m5tBMJkED0f3SM05z/gD/"
      "yiLFNKyhkGwFO7R6CU7uI/sd4AQBFWElGGgAAAE1NACoAAAAIAAEBEgADAAAAAQAGAAAAAAAA",
      "test");
  const Picture image = decoded(as_bytes(file));
  ASSERT_EQ(image.width, 2);
  ASSERT_EQ(image.height, 3);
  const uint8_t expected[] = {9, 9, 9, 255, 0, 0, 99, 99, 99, 0, 255, 0, 200, 200, 200, 0, 0, 255};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(std::to_integer<int>(image.pixels[i]), expected[i]) << i;
}

TEST(Images, AJpegWithoutAPictureIsRefused) {
  EXPECT_NE(image_refusal(as_bytes("\xff\xd8\xff\xd9 and nothing else"s)).find("test: the JPEG is damaged: "), std::string::npos);
}

TEST(Images, HugeSizesAreRefused) {
  std::string gif = "GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x08"s;
  EXPECT_NE(image_refusal(as_bytes(gif)).find("65535x65535 pixels, more than can be decoded"), std::string::npos);
  std::string empty = "GIF89a\0\0\x01\0\0\0\0,\0\0\0\0\1\0\1\0\0\x08\0"s;
  EXPECT_NE(image_refusal(as_bytes(empty)).find("0x1 pixels"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes(bmp_of(1, 1 << 30, 0, "", ""))).find("more than can be decoded"), std::string::npos);
  const std::string webp = "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\xff\xff\xff\x0f\0\0\0\0\0\0\0\0\0"s;
  EXPECT_NE(image_refusal(as_bytes(webp)).find("16384x16384 pixels"), std::string::npos);
  const std::string one = "GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff"s, frame = ",\0\0\0\0\1\0\1\0\0\2"s;
  EXPECT_NE(image_refusal(as_bytes(one + ";")).find("the GIF is damaged: it has no picture"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes(one + frame + "\1\5\0"s)).find("the GIF is damaged: pixels are missing"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes(one + frame + "\1\7\0"s)).find("the GIF is damaged: a code has no meaning"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes("II*\0\x08\0\0\0\0\0"s)).find("the TIFF is damaged"), std::string::npos);
  EXPECT_NE(image_refusal(as_bytes("RIFF\x1a\0\0\0WEBPVP8L\x0d\0"s)).find("the WebP is damaged"), std::string::npos);
}

TEST(ImageOracle, CutShortAnywhereIsAnError) {
  NEEDS_ORACLE();
  for (const char* name : {"photo.bmp", "photo.tif", "lossy.webp", "lossless.webp", "gray16.png", "restart.jpg"}) {
    const Bytes file = read_file(oracle(name));
    for (size_t n = 0; n + 40 < file.size(); n += 1 + file.size() / 150)
      EXPECT_NE(image_refusal(std::span(file).first(n)), "accepted") << name << " " << n;
  }
}

}  // namespace
}  // namespace perigee
