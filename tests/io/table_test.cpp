// CSV, tar, NumPy files and images.
#include <gtest/gtest.h>

#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <cstring>

#include "src/core/error.h"
#include "src/io/archive/tar.h"
#include "src/io/csv.h"
#include "src/io/image.h"
#include "src/io/npy.h"
#include "tests/core/refusal.h"
#include "tests/io/pictures.h"

namespace perigee {
namespace {

TEST(Csv, FollowsRfc4180) {
  const std::string text =
      "\xef\xbb\xbf"
      "name, value ,note\r\n\"a,b\",1,\"say \"\"hi\"\"\"\r\n\r\n c ,\t2,\"two\nlines\" \nlast,3,";
  const CsvTable table = parse_csv(text, "t.csv", ',', true);
  EXPECT_EQ(table.header, (std::vector<std::string>{"name", "value", "note"}));
  ASSERT_EQ(table.rows, 3);
  EXPECT_EQ(table.cell(0, 0), "a,b");
  EXPECT_EQ(table.cell(0, 2), "say \"hi\"");
  EXPECT_EQ(table.cell(1, 0), "c");
  EXPECT_EQ(table.cell(1, 1), "2");
  EXPECT_EQ(table.cell(1, 2), "two\nlines");
  EXPECT_EQ(table.cell(2, 2), "");
  EXPECT_EQ(table.lines, (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(parse_csv("\"\"\"\",\"\"\n", "t", ',', false).cell(0, 0), "\"");
  EXPECT_EQ(parse_csv("1\t2\n", "t", '\t', false).columns, 2);
}

TEST(Csv, NamesTheLineOfWhatIsWrong) {
  const auto parse = [](std::string_view text) { return refusal([&] { parse_csv(text, "t.csv", ',', false); }); };
  EXPECT_TRUE(parse("1,2\n3\n").starts_with("t.csv:2: ")) << parse("1,2\n3\n");
  EXPECT_TRUE(parse("1,2\n3,\"x\n\n").starts_with("t.csv:2: a quoted field does not end")) << parse("1,2\n3,\"x\n\n");
  EXPECT_NE(parse("a\"b,2\n"), "accepted");
  EXPECT_NE(parse("\"a\"b,2\n"), "accepted");
  double value = 0;
  EXPECT_TRUE(csv_number("+1.5e3", value));
  EXPECT_EQ(value, 1500);
  for (const char* text : {"", "x", "1x", "nan", "inf", "1e999", "--1"}) EXPECT_FALSE(csv_number(text, value)) << text;
}

TEST(Npy, RoundTripsEveryTypeAndIsCheckedAtEveryByte) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
    const Tensor tensor = Tensor::from<double>({2, 3}, {0, 1, 2, 3, 4, 5}).to(dtype);
    const Bytes bytes = npy_bytes(tensor);
    const Tensor back = parse_npy(bytes, "t");
    ASSERT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(back.data<std::byte>(), tensor.data<std::byte>(), tensor.bytes()), 0);
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(parse_npy(std::span(bytes).first(n), "t"), Error);
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_THROW(parse_npy(longer, "t"), Error);
  }
  EXPECT_EQ(parse_npy(npy_bytes(Tensor(Dtype::f32, {})), "t").shape(), Shape{});
  EXPECT_EQ(parse_npy(npy_bytes(Tensor(Dtype::f32, {0, 5})), "t").shape(), (Shape{0, 5}));
}

Bytes npy(std::string_view descr, std::string_view order, std::string_view shape, std::string_view data, char version = 1) {
  std::string header =
      "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(order) + ", 'shape': " + std::string(shape) + ", }\n";
  std::string text = std::string("\x93NUMPY") + version + '\0' + static_cast<char>(header.size()) + '\0';
  if (version > 1) text += std::string(2, '\0');
  text += header;
  text += data;
  return {as_bytes(text).begin(), as_bytes(text).end()};
}

TEST(Npy, ReadsOrdersEndiansAndVersions) {
  const Tensor fortran = parse_npy(npy("<i4", "True", "(2, 3)", {"\1\0\0\0\4\0\0\0\2\0\0\0\5\0\0\0\3\0\0\0\6\0\0\0", 24}), "t");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fortran.data<int32_t>()[i], i + 1);
  EXPECT_EQ(parse_npy(npy(">f4", "False", "(1,)", {"\x3f\x80\0\0", 4}, 2), "t").data<float>()[0], 1.f);
  EXPECT_EQ(parse_npy(npy("|i1", "False", "(1,)", "\xfe", 3), "t").data<int32_t>()[0], -2);
  EXPECT_EQ(parse_npy(npy(">u2", "False", "(1,)", {"\xff\xfe", 2}), "t").data<int32_t>()[0], 65534);
  EXPECT_NE(refusal([] { parse_npy(npy("<u8", "False", "(1,)", "\xff\xff\xff\xff\xff\xff\xff\xff"), "t"); }), "accepted");
  for (const char* descr : {"|O", "<c8", "<f16", "<U3", "<i3", "f4", ""})
    EXPECT_NE(refusal([&] { parse_npy(npy(descr, "False", "(1,)", "12345678"), "t"); }), "accepted") << descr;
  for (const char* shape : {"(9223372036854775807, 9223372036854775807)", "(0, 999999999999999, 20003, 9)", "(99999999999999999999,)",
                            "(-1,)", "(1", "1", "(1 2)", "(1,1,1,1,1,1,1,1,1)"})
    for (const char* data : {"", "1234"})
      EXPECT_NE(refusal([&] { parse_npy(npy("<f4", "False", shape, data), "t"); }), "accepted") << shape;
  EXPECT_NE(refusal([] { parse_npy(npy("<f4", "Flase", "(1,)", "1234"), "t"); }), "accepted");
  EXPECT_NE(refusal([] { parse_npy(npy("<f4", "False", "(1,)", "1234", 4), "t"); }), "accepted");
}

std::string tar_header(std::string name, size_t size) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char text[16];
  std::snprintf(text, sizeof text, "%011zo", size);
  header.replace(124, 11, text, 11);
  header[156] = '0';
  unsigned sum = 8 * ' ';
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 6, text, 6);
  header[155] = ' ';
  return header;
}

TEST(Tar, ListsFilesAndIsCheckedAtEveryByte) {
  const std::string archive = tar_header("a/one", 5) + "hello" + std::string(507, '\0') + tar_header("two", 0) + std::string(512, '\0');
  const std::vector<TarEntry> entries = tar_entries(as_bytes(archive), "t");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a/one");
  EXPECT_EQ(as_text(entries[0].content), "hello");
  for (size_t n = 1; n < archive.size(); ++n) EXPECT_THROW(tar_entries(as_bytes(archive).first(n), "t"), Error) << n;
  std::string damaged = archive;
  damaged[3] ^= 1;
  EXPECT_THROW(tar_entries(as_bytes(damaged), "t"), Error);
}

// Names that have no room in a header: GNU's, of kind L, and pax's, as Python's tarfile writes them.
TEST(Tar, ReadsLongNames) {
  const auto header = [](const char* name, size_t size, char kind) {
    std::string made = tar_header(name, size);
    unsigned sum = 0;
    made[156] = kind;
    made.replace(148, 8, 8, ' ');
    for (const char c : made) sum += static_cast<unsigned char>(c);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    return made.replace(148, 7, text, 7);
  };
  const auto block = [](std::string content) { return content + std::string((512 - content.size() % 512) % 512, '\0'); };
  const std::string name = std::string(150, 'd') + "/\u00e9.txt", record = std::to_string(name.size() + 10) + " path=" + name + "\n";
  const std::string end(512, '\0'), short_file = header("two", 1, '0') + block("2");
  for (const std::string& extra :
       {header("././@LongLink", name.size() + 1, 'L') + block(name + '\0'), header("x", record.size(), 'x') + block(record)}) {
    const std::string archive = extra + header("ddd", 5, '0') + block("hello") + short_file + end;
    const std::vector<TarEntry> entries = tar_entries(as_bytes(archive), "t");
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, name);
    EXPECT_EQ(as_text(entries[0].content), "hello");
    EXPECT_EQ(entries[1].name, "two");
  }
  // A size of its own, and what is passed over.
  const std::string sized = "9 size=2\n";
  const std::string archive =
      header("x", sized.size(), 'x') + block(sized) + header("a", 7, '0') + block("hi") + header("folder", 0, '5') + short_file + end;
  const std::vector<TarEntry> entries = tar_entries(as_bytes(archive), "t");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(as_text(entries[0].content), "hi");
  for (const char* damaged : {"path=a\n", "99 path=a\n", "10 path=a", "9 size=x\n", "2 \n"}) {
    const std::string bad = header("x", std::strlen(damaged), 'x') + block(damaged) + short_file + end;
    EXPECT_HAS(refusal([&] { tar_entries(as_bytes(bad), "t"); }), "a pax header is damaged at byte 512");
  }
}

TEST(Images, DecodeToTheSamePixels) {
  for (int channels : {1, 3}) {
    Picture source = gradient(channels, 17, 23), image;
    decode_image(png_of(source), "t.png", channels, image);
    EXPECT_EQ(image.width, 23);
    EXPECT_EQ(image.height, 17);
    EXPECT_EQ(image.pixels, source.pixels);
    decode_image(jpeg_of(source), "t.jpg", channels, image);
    ASSERT_EQ(image.pixels.size(), source.pixels.size());
    for (size_t i = 0; i < image.pixels.size(); ++i)
      EXPECT_NEAR(std::to_integer<int>(image.pixels[i]), std::to_integer<int>(source.pixels[i]), 12);
  }
  Picture image;
  decode_image(png_of(gradient(3, 5, 5)), "t", 1, image);
  EXPECT_EQ(image.pixels.size(), 25u);
}

TEST(Images, CutShortAnywhereIsAnError) {
  Picture image;
  for (const Bytes& file : {png_of(gradient(3, 9, 9)), jpeg_of(gradient(3, 9, 9))})
    for (size_t n = 0; n + 12 < file.size(); ++n)
      EXPECT_NE(refusal([&] { decode_image(std::span(file).first(n), "cut.img", 3, image); }), "accepted") << n << " of " << file.size();
  EXPECT_NE(refusal([&] { decode_image(as_bytes("GIF88a"), "x.gif", 3, image); }).find("no image of a kind"), std::string::npos);
}

TEST(Images, ResizeKeepsConstantsAndAverages) {
  Picture image{.width = 4, .height = 2, .channels = 1, .pixels = Bytes(8, std::byte{100})};
  float planes[64];
  resize_image(image, 8, 8, 1, planes);
  for (float v : planes) EXPECT_NEAR(v, 100, 1e-3);
  for (int i = 0; i < 8; ++i) image.pixels[i] = std::byte(i % 2 * 200);
  resize_image(image, 1, 1, .5f, planes);
  EXPECT_NEAR(planes[0], 50, 1);
  resize_image(image, 2, 4, 1, planes);
  EXPECT_EQ(planes[1], 200);
}

}  // namespace
}  // namespace perigee
