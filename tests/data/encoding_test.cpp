// Texts and tables that are not UTF-8: the same content whatever the encoding, as Python's codecs wrote it, and the first wrong byte is named.
#include "src/io/codec/encoding.h"

#include <gtest/gtest.h>

#include "src/data/documents.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/text_source.h"
#include "src/io/codec/compress.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

struct Written {
  const char *encoding, *hex, *text;
};
// str.encode() of Python 3.11.
constexpr Written kWritten[] = {
    {"utf-16le", "5a006f00eb000a00", "Zoë\n"},
    {"utf-16be", "005a006f00eb0020d83dde00000a", "Zoë 😀\n"},
    {"latin-1", "5a6feb2c20f1616e64fa0a", "Zoë, ñandú\n"},
    {"windows-1252", "935a6feb942096203520800a", "“Zoë” – 5 €\n"},
    {"shift_jis", "93fa967b8cea8141834a835e834a83690a", "日本語、カタカナ\n"},
    {"gb18030", "babad7d6209439fc360a", "汉字 😀\n"},
    {"koi8-r", "f0d2c9d7c5d40a", "Привет\n"},
    {"iso-8859-15", "3520a40a", "5 €\n"},
    {"utf-8", "efbbbf5a6fc3ab0a", "Zoë\n"},
    {"utf-16", "fffe5a006f00eb002c0020006e006100ef00760065002000ac2035000a00f10061006e006400fa000a00", "Zoë, naïve €5\nñandú\n"},
};

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

TEST(Encoding, SaysWhatPythonWrote) {
  for (const Written& each : kWritten) {
    const std::string bytes = bytes_of(each.hex);
    EXPECT_EQ(decoded_text(bytes, each.encoding, "t").text, each.text) << each.encoding;
    // Byte by byte: every character lies across a border.
    TextDecoder decoder(each.encoding, "t");
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) decoder.add(std::string_view(bytes).substr(i, 1), i + 1 == bytes.size(), text);
    EXPECT_EQ(text, each.text) << each.encoding;
  }
}

TEST(Encoding, ChecksLongTextsAcrossParts) {
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += "aé€😀\n";
  EXPECT_EQ(decoded_text(text, "utf-8", "t").text, text);
  text += "\xff";
  EXPECT_HAS(refusal(ErrorKind::data, [&] { decoded_text(text, "utf-8", "t"); }), "at byte " + std::to_string(text.size() - 1));
}

TEST(Encoding, NamesTheFirstWrongByte) {
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text("one\ntwo\x81 three", "windows-1252", "t.csv"); }),
             "t.csv:2: the text is not what its encoding says; got 0x81 at byte 7, expected text in windows-1252");
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text("a\n\n\xe9t\xe9", "utf-8", "t"); }),
             "t:3: the text is not what its encoding says; got 0xe9 at byte 3");
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text(std::string_view("a\0b", 3), "utf-16le", "t"); }),
             "the text ends inside a character");
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text("a", "windows-1225", "t"); }),
             "there is no such encoding of text; got 'windows-1225'");
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text("a", "windows-1225", "t"); }), "did you mean 'windows-1252'");
  EXPECT_HAS(refusal(ErrorKind::data, [] { decoded_text("\x81", "utf-8//IGNORE", "t"); }), "there is no such encoding of text");
}

class EncodedFiles : public testing::Test {
 protected:
  SourcePtr open(const std::string& json) const {
    return open_source(Config(Json::parse(json, "test"), "test", ErrorKind::data), folder_.path());
  }
  void write(const std::string& name, std::string_view text) const { write_file(folder_ / name, as_bytes(text)); }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

TEST_F(EncodedFiles, EverySourceOfTextReadsThem) {
  write("l.csv", "x,city\n1,M\xfcnchen\n2,K\xf6ln\n3,K\xf6ln\n");
  for (const char* type : {"csv", "table"}) {
    const SourcePtr source = open(std::string(R"({"type":")") + type + R"(","file":"l.csv","encoding":"latin-1","target":"city"})");
    EXPECT_EQ(source->fields()[1].class_names, (std::vector<std::string>{"Köln", "München"})) << type;
  }
  write("t.txt", "\xe9\xe9\xe8\n");
  EXPECT_HAS(open(R"({"type":"text","file":"t.txt","encoding":"windows-1252","context":1})")->traits().fitted.dump(), "è");
  write("d.csv", "text,label\n\xe9t\xe9 chaud,yes\nhiver,no\n");
  EXPECT_HAS(open(R"({"type":"documents","file":"d.csv","encoding":"latin-1","features":"count"})")->traits().fitted.dump(), "été");
}

TEST_F(EncodedFiles, AByteOrderMarkIsEnough) {
  // "x,y\n1,é\n2,o\n" by Python's utf-16.
  write("u.csv", bytes_of("fffe78002c0079000a0031002c00e9000a0032002c006f000a00"));
  const tables::Frame frame = tables::read_table(folder_ / "u.csv");
  ASSERT_EQ(frame.rows, 2);
  EXPECT_EQ(frame.columns[1].text(0), "é");
  tables::TableFile file(folder_ / "u.csv", {});
  EXPECT_HAS(tables::schema_json(file.schema(), &file.dialect()).dump(), R"("encoding":"utf-16")");
  EXPECT_EQ(open(R"({"type":"csv","file":"u.csv","target":"y"})")->fields()[1].class_names, (std::vector<std::string>{"o", "é"}));
}

}  // namespace
}  // namespace perigee
