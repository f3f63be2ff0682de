// Augmentation of pictures beside torchvision 0.29: its oracles of a photograph, and a small picture of which it made these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "kernels/picture_loops.h"
#include "src/core/host_isa.h"
#include "src/data/arrays.h"
#include "src/data/transforms/picture_ops.h"
#include "src/io/file.h"
#include "src/io/npy.h"

namespace perigee {
namespace {

using Planes = std::vector<float>;

PictureOps ops_of(const ImageSize& size, bool bilinear = false, float fill = 0) {
  return {.size = size, .top = 255, .sampling = {.bilinear = bilinear, .fill = fill}};
}

Planes applied(const PictureOps& ops, PictureOp op, float magnitude, const Planes& from) {
  Planes to(from.size(), -1);
  ops.apply(op, magnitude, from.data(), to.data());
  return to;
}

// Values further away than one level; the peer's are rounded or cut.
int64_t beyond_one(const Planes& made, const uint8_t* expected) {
  int64_t count = 0;
  for (size_t i = 0; i < made.size(); ++i) count += std::abs(made[i] - static_cast<float>(expected[i])) > 1.5f;
  return count;
}

TEST(AugmentOracle, APhotograph) {
  const char* data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data == nullptr ? "$PERIGEE_DATA" : data) + "/oracles/images/expected.npz";
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there";
  const auto arrays = parse_npz(read_file(path), path);
  const std::map<std::string, Tensor> expected(arrays.begin(), arrays.end());
  const Tensor& photo = expected.at("photo");
  const ImageSize size{3, photo.shape()[1], photo.shape()[2]};
  const Planes x(photo.data<uint8_t>(), photo.data<uint8_t>() + photo.elements());
  const auto check = [&](const char* key, const Planes& made) {
    EXPECT_EQ(beyond_one(made, expected.at(key).data<uint8_t>()), 0) << key << " of " << made.size();
  };
  const PictureOps ops = ops_of(size);
  check("brightness_1.4", applied(ops, PictureOp::brightness, .4f, x));
  check("contrast_0.6", applied(ops, PictureOp::contrast, -.4f, x));
  check("saturation_1.7", applied(ops, PictureOp::saturation, .7f, x));
  check("sharpness_2.0", applied(ops, PictureOp::sharpness, 1, x));
  check("posterize3", applied(ops, PictureOp::posterize, 3, x));
  check("solarize128", applied(ops, PictureOp::solarize, 128 / 255.f, x));
  check("autocontrast", applied(ops, PictureOp::autocontrast, 0, x));
  check("invert", applied(ops, PictureOp::invert, 0, x));
  // Its new pixels have the values 10, 20 and 30 in the three channels. Pixels half inside are left out: torchvision lets them fade twice.
  const ImageSize plane{1, size.height, size.width};
  const Planes inside = applied(ops_of(plane, true), PictureOp::rotate, 17, Planes(static_cast<size_t>(size.pixels()), 1));
  for (const bool bilinear : {true, false}) {
    const std::string key = bilinear ? "rotate17_bilinear" : "rotate17_nearest";
    int64_t wrong = 0;
    for (int64_t c = 0; c < 3; ++c) {
      const Planes channel(x.begin() + c * size.pixels(), x.begin() + (c + 1) * size.pixels());
      const Planes made = applied(ops_of(plane, bilinear, 10.f * static_cast<float>(c + 1)), PictureOp::rotate, 17, channel);
      for (size_t i = 0; i < made.size(); ++i)
        if (!bilinear || inside[i] < 1e-6f || inside[i] > 1 - 1e-6f)
          wrong +=
              std::abs(made[i] - static_cast<float>(expected.at(key).data<uint8_t>()[static_cast<size_t>(c * size.pixels()) + i])) > 1.5f;
    }
    EXPECT_LE(wrong, 38) << key << " of " << x.size();
  }
  // A kernel of 5 with the deviation 1.2, through the transform.
  register_source("photo", arrays_source("photo", {{.name = "x", .values = Tensor::from<float>({1, 3, size.height, size.width}, x)}}));
  const SourcePtr blurred = open_source(
      Config(
          Json::parse(R"({"type":"map","source":{"type":"arrays","handle":"photo"},"transforms":[{"type":"blur","deviation":[1.2,1.2]}]})",
                      "test"),
          "test", ErrorKind::data),
      ".");
  Planes made(x.size());
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(made.data())};
  blurred->read({}, slots);
  check("blur5_1.2", made);
  register_source("photo", nullptr);
}

TEST(Augment, ASmallPictureAsTorchvision) {
  const ImageSize size{3, 9, 8};
  Planes x;
  for (int i = 0; i < 216; ++i) x.push_back(static_cast<float>((37 * i + i * i / 5) % 256));
  const PictureOps nearest = ops_of(size), bilinear = ops_of(size, true);
  const auto warped = [&](const PlaneMap& map, bool smooth) {
    Planes to(x.size());
    warp_image(x.data(), size, map, {.bilinear = smooth}, to.data());
    return to;
  };
  const auto turned = [&](float by) {
    Planes to(x.size());
    picture_loops(host_isa()).hue(x.data(), by, size.pixels(), to.data());
    return to;
  };
  const AffineParts parts{.degrees = 25, .scale = 1.2, .shear_x = 10, .shear_y = 5, .right = 1, .down = -2};
  const std::map<std::string, Planes> made = {
      {"equalize", applied(nearest, PictureOp::equalize, 0, x)},
      {"hue 0.13", turned(.13f)},
      {"hue -0.4", turned(-.4f)},
      {"affine bilinear", warped(affine_map(size, parts), true)},
      {"affine nearest", warped(affine_map(size, parts), false)},
      {"shear_x 0.3", applied(nearest, PictureOp::shear_x, .3f, x)},
      {"shear_y -0.2", applied(bilinear, PictureOp::shear_y, -.2f, x)},
      {"translate_x 2", applied(nearest, PictureOp::translate_x, 2, x)},
      {"perspective", warped(perspective_map(size, {{1, 0}, {6, 2}, {7, 7}, {0, 6}}), true)},
  };
  const std::pair<const char*, const char*> expected[] = {
      {"equalize",
       "00254a7097bee50c345d86afd8022d5883aeda0734618ebceb1a4978a8d90a3b6c9ed104376a9ed3083d72a8df164d84bcf52e67a0da15508bc6023f"
       "7cb9f63473b2f13070b1f23374b6f93c7fc2064b90d51a60a7ee357cc40d569fe8327dc8135eaaf74491de2c7bca1968b8095aabfc4ea1f4479aee43"
       "98ed4298ef469df44ca5fe57b00a65c01b76d22f8ce946a40362c12080e142a30466c92c8ff256bb2085ea50b71e85ec54bd268ff862cd38a30e7ae7"
       "54c12e9c0b7ae958c839aa1b8cfe71e457ca3eb3289d1288ff76ed64dc55ce47c03ab530"},
      {"hue 0.13",
       "00254a6597d6e543045dc998d002458120aeea07345c8ed6eb552678f8c40a3b880ed15137c18bd0085ba058df164d73bbfe4e9857da15507dc60260"
       "aeb9f634dca6f142923af2307499a97091be780c90d51aafd8322d58c41256778d6182bc7a1aaaf744d9492c6cca4704b8099ed3fc3d72f44794b584"
       "bced2e67ef4692b58bc5fe3f7c2665af1bb2ee2f70e95da45db6f9207fe106a341c4842c8ff256bb3d0d879fe81e7dec13bd6af3bc62de2ca31019e7"
       "b8892e9cca7ae982519aee1b8cfa71e485569df4289dd788ff0a7cc0af55ce47c04b4688"},
      {"hue -0.4",
       "74b6f9207fd0068790d51a2c8ff245a4c40d569fe81e7ddc139faaf74462de2c91ab19c3b8092e9cfc66d1f4479aee1b8ced5dcaef469df4289dfe74"
       "e50a65c01b55ce37acdb46a400287b248ae19ba3045dc92c949656bb20aeea136f248cecabbd2678f862783ba30ec4e737c12ea3087ae958df166a1d"
       "93fe71e457da15712ba60288ffb9f634dc59d847c03af2302b254a7097bee50c6c8440afd8022d58c4979f0734618ebceb1a7e9460d90a386ccad104"
       "4d209ed3673d72e7b9274d84bcef2e67ddaf22508bc6573f7cb6c53c25b2f12f70e9eb61"},
      {"affine bilinear",
       "32af57457d39215b3072a19e5d8192924e3f7f7f23408396e7825d96bf7d4f8b90164b7fb0793c66a2494b7fb3a51b53692a5f8fbeeb763500052c6d"
       "c8b8330f000000002026120020445b7592aec9b79da49b51a9b3696dbf51787782a1617fd88e85db876c4150bfad82bdb37abbb8cf9a67b66856a5b6"
       "5c2975944c54a4ac0006388f7d69b035000000000b3e3a0031769380796c8b954950315b8ab5e063557eadaac27c9986e2b4a97c9e8c8e577f3ca9a8"
       "7d7d777e86639cd6a49d49765f3da5a472d79a7000093b2e7a9849190000000018201100"},
      {"affine nearest",
       "00eb1a1a49073434089e9ed17878a861083d72d104376ad9f52e2ea8dfdf6a9ec6026767a0164d4df13f3f7cb9da1550f1307070b9f63450000000b1"
       "f2f23300000000000000000000135e5eaa9fe8e8fccaca19f7f74432fc4ea11968b80991ed4242f44747095aa5fe9898ef9aeeeed25757b00a469df4"
       "d22f8c8c0a65c0f4000000e94646a40000000000000000000054bdbd2650b7b70b0e0e7a8f8ff81e0b7ae97ae754c162fe717158c8c8c12e9d12e4e4"
       "5739aaaace8888ff76ca3eb3ce47c0c076ed64b30000003ab5b530000000000000000000"},
      {"shear_x 0.3",
       "00254a7097bee50c345d86afd8022d58aeda0734618ebc001a4978a8d90a3b009ed104376a9ed30072a8df164d8400002e67a0da15500000023f7cb9"
       "f63400003070b1f23300000074b6f93c7fc2064b90d51a60a7ee357c0d569fe8327dc8005eaaf74491de2c00ca1968b8095aab00a1f4479aee430000"
       "4298ef469df40000fe57b00a65c000002f8ce946a40000000362c12080e142a30466c92c8ff256bb85ea50b71e85ec00bd268ff862cd38000e7ae754"
       "c12e9c00e958c839aa1b000071e457ca3eb300001288ff76ed64000047c03ab530000000"},
      {"shear_y -0.2",
       "001a25220f0000002f4c68839eaba0067b96b07dc8156432e14692294057718a79768d559dcd327c125aa23548757287aabe5094d91e65ac90d4185b"
       "9cc6266a75b87a3a7bbcb342687f7c120d0000008dcc8a4783af0426bf493873aeea2764254680b9d84567a271aa62cc5087c17aef735d92ad17826c"
       "a2bd72d8588cc27754bba084e94eb59c2084e84bac1076da0345600a0d0000000465c52482ca2e521d7cda3793f050af4fac8863bd3377d49b4250a9"
       "e85bb7921a5ab2bc60b85e6a7fd6ad82bd47855c32ba42c868bc5e67ca6b7074f97eb98c"},
      {"translate_x 2",
       "000000254a7097be0000345d86afd802000083aeda0734610000eb1a4978a8d900006c9ed104376a0000083d72a8df160000bcf52e67a0da00008bc6"
       "023f7cb9000073b2f13070b1000074b6f93c7fc2000090d51a60a7ee0000c40d569fe8320000135eaaf7449100007bca1968b8090000fc4ea1f4479a"
       "000098ed4298ef4600004ca5fe57b00a00001b76d22f8ce900000362c12080e100000466c92c8ff200002085ea50b71e000054bd268ff8620000a30e"
       "7ae754c100000b7ae958c83900008cfe71e457ca0000289d1288ff760000dc55ce47c03a"},
      {"perspective",
       "04070e00000000002b79787e6d000000429b4a67621514000c4a9d686faa8f007fab787eb741b20071b77b367fc335166ba2aa5d56a0ec22223b5e56"
       "2d67bb2e00000000000000000d7d3c0000000000299c86685c00000025466995cb9d3e0086a87e5985959a006bbb8ab5885484003f8fbc88bc6db916"
       "1e63b5a2735f607708224a4c338565940000000000000000000d2500000000000c308b6a5d0000003a768d889ead7a00114c52a2b66eb2005fa6b5a5"
       "9d7c65002381807ea0ab6a0db47f7d6ca9a0e046412c4250495d792b0000000000000000"}};
  for (const auto& [key, hex] : expected) {
    std::vector<uint8_t> bytes;
    for (const char* at = hex; *at != 0; at += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(at, 2), nullptr, 16)));
    ASSERT_EQ(bytes.size(), x.size());
    EXPECT_EQ(beyond_one(made.at(key), bytes.data()), 0) << key;
  }
}

// Each of RandAugment's operations and strengths is drawn, and no other.
TEST(Augment, StrengthsAreThoseOfTheTables) {
  const ImageSize size{3, 100, 331};
  const auto value = [&](PictureOp op, int64_t level, Space space) { return magnitude_of(op, level, 31, space, size).value; };
  EXPECT_FLOAT_EQ(value(PictureOp::translate_x, 30, Space::narrow), 150);
  EXPECT_FLOAT_EQ(value(PictureOp::translate_x, 30, Space::wide), 32);
  EXPECT_FLOAT_EQ(value(PictureOp::rotate, 9, Space::narrow), 9);
  EXPECT_FLOAT_EQ(value(PictureOp::rotate, 30, Space::wide), 135);
  EXPECT_FLOAT_EQ(value(PictureOp::posterize, 9, Space::narrow), 7);
  EXPECT_FLOAT_EQ(value(PictureOp::posterize, 30, Space::wide), 2);
  EXPECT_FLOAT_EQ(value(PictureOp::solarize, 0, Space::wide), 1);
  EXPECT_FLOAT_EQ(value(PictureOp::contrast, 15, Space::narrow), .45f);
  EXPECT_FALSE(magnitude_of(PictureOp::solarize, 3, 31, Space::wide, size).either_way);
}

SourcePtr mapped(const std::string& transform, const Planes& image, int64_t side) {
  register_source("one", arrays_source("one", {{.name = "x", .values = Tensor::from<float>({1, 3, side, side}, image)}}));
  return open_source(
      Config(Json::parse(R"({"type":"map","source":{"type":"arrays","handle":"one"},"transforms":[)" + transform + "]}", "t"), "test",
             ErrorKind::data),
      ".");
}

Planes drawn(const DataSource& source, uint64_t epoch) {
  Planes x(static_cast<size_t>(source.fields()[0].shape.elements()));
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data())};
  source.read({.epoch = epoch}, slots);
  return x;
}

Planes noise(int64_t n) {
  Planes values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& value : values) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 16777216.f;
  return values;
}

TEST(Augment, KeepsValuesFromNothingToTheTop) {
  const Planes image = noise(3 * 32 * 32);
  for (const char* transform : {R"({"type":"rand_augment","operations":4,"magnitude":25})", R"({"type":"trivial_augment"})",
                                R"({"type":"auto_augment"})", R"({"type":"auto_augment","policy":"cifar10"})",
                                R"({"type":"colour","brightness":1,"contrast":1,"saturation":1,"hue":0.5,"order":"random","top":1})"}) {
    const SourcePtr source = mapped(transform, image, 32);
    std::set<Planes> different;
    for (uint64_t epoch = 0; epoch < 60; ++epoch) {
      const Planes x = drawn(*source, epoch);
      different.insert(x);
      for (const float value : x) ASSERT_TRUE(value >= -1e-6 && value <= 1 + 1e-6) << transform << ": " << value;
    }
    EXPECT_GT(different.size(), 20u) << transform;
  }
  register_source("one", nullptr);
}

TEST(Augment, ErasesAShareOfTheArea) {
  const SourcePtr source = mapped(R"({"type":"erase","area":[0.1,0.2],"fill":-1})", noise(3 * 40 * 40), 40);
  int erased = 0;
  for (uint64_t epoch = 0; epoch < 300; ++epoch) {
    const Planes x = drawn(*source, epoch);
    const auto count = std::count(x.begin(), x.end(), -1.f);
    erased += count > 0;
    EXPECT_TRUE(count == 0 || (count > 3 * 1600 * .08 && count < 3 * 1600 * .23)) << count;
  }
  EXPECT_NEAR(erased, 150, 35);
  register_source("one", nullptr);
}

TEST(Augment, ColoursOfOldJobsAreOneAffineMap) {
  // Brightness, contrast and saturation in their order, not bounded: what comes out is a x + b grey + c for one a, b, c.
  const Planes image = noise(3 * 16 * 16);
  const Planes x = drawn(*mapped(R"({"type":"colour","brightness":0.9,"contrast":0.9,"saturation":0.9})", image, 16), 3);
  const auto grey = [](const Planes& p, size_t i) { return .299 * p[i] + .587 * p[256 + i] + .114 * p[512 + i]; };
  const double a = (x[0] - x[256]) / (image[0] - image[256]);
  const double g = (grey(x, 1) - grey(x, 0)) / (grey(image, 1) - grey(image, 0)), c = grey(x, 0) - g * grey(image, 0);
  for (size_t i = 0; i < 256; ++i)
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(x[k * 256 + i], a * (image[k * 256 + i] - grey(image, i)) + g * grey(image, i) + c, 1e-4);
  register_source("one", nullptr);
}

}  // namespace
}  // namespace perigee
