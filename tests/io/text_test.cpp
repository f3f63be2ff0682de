// YAML, event files and charts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/io/image.h"
#include "src/io/plot/chart.h"
#include "src/io/plot/png.h"
#include "src/io/plot/tensorboard.h"
#include "src/io/yaml.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string text_refusal(std::string_view text) {
  try {
    parse_yaml(text, "t.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Yaml, SpellsTheSameValueAsJson) {
  const Json yaml = parse_yaml(R"(
# a job
name: lenet   # comment
epochs: 5
lr: 2e-3
numbers: [1, -2, +3, 007, 0.5, .5, 5., 1e3, 9223372036854775807]
flags: [true, False, null, ~, yes]
quoted: ["5", 'true', "\u00e9"]
text: |
  two
  lines
layers:
  - type: conv2d
    kernel: 5
  - {type: dense, out: 10}
empty: {}
nothing:
)",
                               "t.yaml");
  const Json json = Json::parse(R"({"name":"lenet","epochs":5,"lr":2e-3,"numbers":[1,-2,3,7,0.5,0.5,5.0,1e3,9223372036854775807],
    "flags":[true,false,null,null,"yes"],"quoted":["5","true","é"],"text":"two\nlines\n",
    "layers":[{"type":"conv2d","kernel":5},{"type":"dense","out":10}],"empty":{},"nothing":null})",
                                "t.json");
  EXPECT_EQ(yaml.dump(2), json.dump(2));
}

TEST(Yaml, AliasesStandForWhatIsAnchored) {
  const Json yaml =
      parse_yaml("train: &data {type: csv, file: &name a.csv}\ntest: *data\nalso: [*name, *data]\nnumber: &n 3\nsame: *n", "t.yaml");
  EXPECT_EQ(yaml.dump(), Json::parse(R"({"train":{"type":"csv","file":"a.csv"},"test":{"type":"csv","file":"a.csv"},
      "also":["a.csv",{"type":"csv","file":"a.csv"}],"number":3,"same":3})",
                                     "t.json")
                             .dump());
}

// "Billion laughs": short texts that would stand for huge values, deep ones, and long texts many times.
TEST(Yaml, AliasesCountAsIfTheyWereWritten) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", deep = "d0: &d0 [1]\n",
              texts = "t: &t " + std::string(1 << 20, 'x') + "\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1) + (i < 9 ? ", " : "");
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) laughs += before;
    laughs += "1]\n";
  }
  for (int i = 1; i < 70; ++i) deep += "d" + std::to_string(i) + ": &d" + std::to_string(i) + " [*d" + std::to_string(i - 1) + "]\n";
  for (int i = 0; i < 70; ++i) texts += "t" + std::to_string(i) + ": *t\n";
  EXPECT_THROW(parse_yaml(laughs, "t", 10'000), Error);
  EXPECT_NE(text_refusal(deep).find("deeper than 64"), std::string::npos);
  EXPECT_NE(text_refusal(texts).find("too many values"), std::string::npos);
}

TEST(Yaml, RefusesWhatIsNotStrict) {
  EXPECT_NE(text_refusal("a: 1\nb: 2\na: 3").find("t.yaml:3:1: the key 'a' appears twice"), std::string::npos)
      << text_refusal("a: 1\nb: 2\na: 3");
  EXPECT_NE(text_refusal("b: *x").find("t.yaml:1:4: there is no value with the anchor 'x' before it; write &x before the value"),
            std::string::npos)
      << text_refusal("b: *x");
  EXPECT_NE(text_refusal("b: &x [*x]").find("no value with the anchor"), std::string::npos) << "of itself";
  EXPECT_NE(text_refusal("&x a: 1").find("a key has no anchor"), std::string::npos);
  EXPECT_NE(text_refusal("a: &x b\n*x : 1").find("plain string"), std::string::npos);
  EXPECT_NE(text_refusal("a: !!python/object:os.system x").find("tags"), std::string::npos);
  EXPECT_NE(text_refusal("<<: {a: 1}").find("merge"), std::string::npos);
  EXPECT_NE(text_refusal("? [a]\n: 1").find("plain string"), std::string::npos);
  EXPECT_NE(text_refusal("a: .inf"), "accepted");
  EXPECT_NE(text_refusal("a: 99999999999999999999"), "accepted");
  EXPECT_NE(text_refusal("a: 1e999"), "accepted");
  EXPECT_NE(text_refusal("--- 1\n--- 2").find("second document"), std::string::npos);
  EXPECT_NE(text_refusal("a: [1, 2"), "accepted");
  EXPECT_NE(text_refusal("\tx: 1"), "accepted");
  EXPECT_NE(text_refusal("a: \x80"), "accepted");
  EXPECT_EQ(text_refusal(std::string(64, '[') + std::string(64, ']')), "accepted");
  EXPECT_NE(text_refusal(std::string(65, '[') + std::string(65, ']')).find("deeper"), std::string::npos);
  EXPECT_THROW(parse_yaml("[1,2,3]", "t", 3), Error);
}

TEST(Tensorboard, WritesFramedRecordsWithTheirChecksums) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  const TemporaryFolder folder;
  std::string path;
  {
    TensorboardWriter writer(folder / "run/events");
    path = writer.path();
    writer.scalar("train/loss", 7, .25);
    const std::vector<float> values = {0.f, 1.f, -1.f, 1e-20f, NAN};
    writer.histogram("weights", 7, values);
    EXPECT_EQ(writer.dropped(), 0);
  }
  const Bytes bytes = read_file(path);
  const std::string_view text = as_text(bytes);
  size_t at = 0;
  std::vector<std::string_view> records;
  while (at < text.size()) {
    uint64_t length = 0;
    uint32_t length_crc = 0, data_crc = 0;
    ASSERT_LE(at + 16, text.size());
    std::memcpy(&length, text.data() + at, 8);
    std::memcpy(&length_crc, text.data() + at + 8, 4);
    const uint32_t expected = crc32c(text.substr(at, 8));
    EXPECT_EQ(length_crc, (expected >> 15 | expected << 17) + 0xa282ead8u);
    ASSERT_LE(at + 16 + length, text.size());
    records.push_back(text.substr(at + 12, length));
    const uint32_t of_data = crc32c(records.back());
    std::memcpy(&data_crc, text.data() + at + 12 + length, 4);
    EXPECT_EQ(data_crc, (of_data >> 15 | of_data << 17) + 0xa282ead8u);
    at += 16 + length;
  }
  ASSERT_EQ(records.size(), 3u);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string_view::npos);
  // step 7, summary { value { tag: "train/loss" simple_value: 0.25 } }
  EXPECT_EQ(records[1].substr(9), std::string_view("\x10\x07\x2a\x13\x0a\x11\x0a\x0atrain/loss\x15\0\0\x80\x3e", 25 - 2));
  EXPECT_NE(records[2].find("weights"), std::string_view::npos);
}

TEST(Tensorboard, NeverEndsARun) {
  std::string warning;
  const WarningHandler before = set_warning_handler([&](const std::string& text) { warning += text + "\n"; });
  {
    TensorboardWriter writer("/dev/null/impossible");
    writer.scalar("x", 1, 1);
    writer.scalar("x", 2, 1);
    EXPECT_GE(writer.dropped(), 2);
  }
  set_warning_handler(before);
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
}

TEST(Svg, DrawsCurvesAndSurvivesStrangeNumbers) {
  PlotCurve curve{.name = "train <&>", .points = {}};
  for (int i = 0; i < 5000; ++i) curve.points.emplace_back(i, i == 2500 ? 1e3 : std::exp(-i / 500.0));
  curve.points.emplace_back(5000, NAN);
  const std::string svg =
      svg_charts("lenet", {{"loss", "step", {curve}, true}, {"accuracy", "epoch", {{"test", {{1, .5}}}, {"none", {}}}}});
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("train &lt;&amp;&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_LT(svg.size(), 40000u);
}

// Read back by libpng.
TEST(Png, DrawsTheSameCurves) {
  const Chart chart{"loss", "step", {{"train", {{0, 0}, {10, 1}}}}};
  const std::string file = png_charts("\xc3\xa4", {chart, chart});
  Picture picture;
  decode_image(std::as_bytes(std::span(file)), "chart", 3, picture);
  ASSERT_EQ(picture.width, 1520);
  ASSERT_EQ(picture.height, 2 * (30 + 2 * 300));
  const auto colour_at = [&](double x, double y) {
    const auto* pixel = reinterpret_cast<const uint8_t*>(picture.pixels.data()) +
                        (static_cast<int64_t>(2 * y) * picture.width + static_cast<int64_t>(2 * x)) * 3;
    return pixel[0] << 16 | pixel[1] << 8 | pixel[2];
  };
  EXPECT_EQ(colour_at(5, 5), 0xffffff);
  for (const double top : {30., 330.}) {  // from the lower left corner of the axes to the upper right one
    EXPECT_EQ(colour_at(70, top + 256), 0x0072b2);
    EXPECT_EQ(colour_at(335, top + 146), 0x0072b2);
    EXPECT_EQ(colour_at(600, top + 36), 0x0072b2);
    EXPECT_EQ(colour_at(400, top + 170), 0xffffff);
  }
}

TEST(Png, AnImageOfNoiseComesBack) {
  std::vector<uint8_t> pixels(37 * 5 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 31 + 7 * i);
  const std::string file = png_file(37, 5, pixels);
  Picture picture;
  decode_image(std::as_bytes(std::span(file)), "noise", 3, picture);
  ASSERT_EQ(picture.pixels.size(), pixels.size());
  EXPECT_EQ(std::memcmp(picture.pixels.data(), pixels.data(), pixels.size()), 0);
}

}  // namespace
}  // namespace perigee
