// Tables that other programs wrote in ways of their own, and what those programs read from them.
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/archive/zip.h"
#include "src/io/base64.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

// Each row's cells, with "-" for what is missing.
std::string table_text(const std::string& path) {
  const Frame frame = TableFile(path, {}).all();
  std::string text;
  for (const ColumnSpec& spec : frame.schema.columns) text += (text.empty() ? "" : " ") + spec.name;
  for (int64_t r = 0; r < frame.rows; ++r)
    for (size_t c = 0; c < frame.columns.size(); ++c)
      text += (c == 0 ? "\n" : " ") + (frame.columns[c].is_missing(r) ? "-" : cell_text(frame.columns[c], frame.schema.columns[c], r));
  return text;
}

Bytes unpacked(const char* gzipped) {
  const std::string bytes = from_base64(gzipped, "test");
  return gunzip(as_bytes(bytes), "test", 1 << 20);
}

// pl.DataFrame({"a": [1, None, 3], "c": pl.Series(["x", "yy", "x"], dtype=pl.Categorical)}).write_ipc(...), Polars 2.1: what is in the file stands
// at its end alone.
constexpr const char* kPolars =
    "H4sIAAAAAAACA+VUPUsDQRB994FEPSTGK06rKy1jbAJp7ggiQiByBBQRothY2gim8wf4A/ITLCxSWubXWIhVELFQzjd7E80tWgTtHJid3Z2Zlzezc0mzrHuwBfgAJnmeh5"
    "C9w3UJy6hw9XHBe/G71DsUsQ+8G9LeUM+pJ9SI6kQ1bDAiwjqzA1QRGjTJeWZOTBtQxedzrXBfb9Vbl9uNFreMB/r7nX477e3sdrO9dtppQOWV+UVuxSC+KB6wwBsfb4Zn"
    "wf6M+sRzkzaecnMFv8aIKlYNRmCyhVcifoO9aHjJ/pRKVz5S/oI3Vi5FnzwirBlMqeaRfk/9x1qL9DGkTzrh40sctYnaSO01yjI9BzN38g6eheNZee/4nTjW2fsDjHlE+n"
    "470/ek1He31Hd7LmQ2XY3vUTc1D1hhn4u3gM4lrL7+JLFVl/tNrVcW1mAwX72YqfeQtvlZr7x/zUyQfDfyW7GSv9f8scVlqARH1pz932/5iCY1/3Yf0h741fQEAAA=";

TEST(TablePeers, PolarsWritesArrowFiles) {
  const TemporaryFolder folder;
  const Bytes file = unpacked(kPolars);
  write_file(folder / "p.arrow", file);
  EXPECT_EQ(table_text(folder / "p.arrow"), "a c\n1 x\n- yy\n3 x");
  // Cut, or with an end that leads nowhere: an error, as of any damage.
  for (size_t size = 8; size < file.size(); size += 31) {
    write_file(folder / "cut.arrow", std::span(file).first(size));
    EXPECT_NE(refusal([&] { table_text(folder / "cut.arrow"); }), "accepted") << size;
  }
  for (size_t at = file.size() - 400; at < file.size() - 6; at += 5) {
    Bytes damaged = file;
    damaged[at] ^= std::byte{0x55};
    write_file(folder / "damaged.arrow", damaged);
    refusal([&] { table_text(folder / "damaged.arrow"); });
  }
}

// h5py: f.create_dataset("a", shape=(3,), dtype="f4", fillvalue=2.5); "b", shape=(5,), dtype="i4", fillvalue=-1, chunks=(2,), of which b[2] = 7 was
// written; behind 512 bytes of the user's.
constexpr const char* kFill =
    "H4sIAAAAAAACA+2WPW7CQBCFZ9ZrWKEEmcqIJj5CjpBIGFGRCCgogROkpEtLbpIjUFLmVoTdmbHxKkIKDRLMa57mx7sr+9uRAVT3rK/xcPTYGXRC4BxYyKhgyA6sfdaM5f"
    "klO7Jv2b+N5DHU+pzv8fpx33xalr77EEn2ebbkmX6yu9S4fH33vuBYePoxzb4V+zri8uXCfRFatAZKTDsjUiLhvtr7obVXPAEhW0DuIP/kenok2NeNMcj1cDQLLuQl53if"
    "BOUmPEQn+7jKd5hN3oZ4HA6O4yI53y/3dZMqw//hKq14Ea6Im8xVjDR5SognmZmnPPlcxZMx21Y94W19os1V34ef//jH/BfOomsOu24ztpGrVCqVSqW6PbX5v+YXKIU/lM"
    "AQAAA=";

TEST(TablePeers, WhatWasNotWrittenOfHdf5HasTheValueForIt) {
  const TemporaryFolder folder;
  write_file(folder / "f.h5", unpacked(kFill));
  EXPECT_EQ(table_text(folder / "f.h5#a"), "a\n2.5\n2.5\n2.5");
  EXPECT_EQ(table_text(folder / "f.h5#b"), "b\n-1\n-1\n7\n-1\n-1");
}

// A formula that openpyxl wrote and no program has computed; a colour that begins as a time does, and times beyond a day.
TEST(TablePeers, OpenpyxlWritesFormulasWithoutValues) {
  const TemporaryFolder folder;
  const auto bytes = [](std::string_view text) { return Bytes(as_bytes(text).begin(), as_bytes(text).end()); };
  const std::pair<std::string, Bytes> files[] = {
      {"xl/workbook.xml", bytes(R"(<workbook xmlns:r="r"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>)")},
      {"xl/_rels/workbook.xml.rels", bytes(R"(<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>)")},
      {"xl/styles.xml",
       bytes(
           R"(<styleSheet><numFmts><numFmt numFmtId="170" formatCode="[Magenta]0.00"/><numFmt numFmtId="171" formatCode="[h]:mm"/></numFmts>)"
           R"(<cellXfs><xf numFmtId="0"/><xf numFmtId="170"/><xf numFmtId="171"/></cellXfs></styleSheet>)")},
      {"xl/worksheets/sheet1.xml",
       bytes(
           R"(<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>f</t></is></c><c r="B1" t="inlineStr"><is><t>m</t></is></c>)"
           R"(<c r="C1" t="inlineStr"><is><t>h</t></is></c></row><row r="2"><c r="A2"><f>1+1</f><v></v></c><c r="B2" s="1"><v>2.5</v></c>)"
           R"(<c r="C2" s="2"><v>43832.25</v></c></row><row r="3"><c r="A3"><f>1+1</f><v>2</v></c></row></sheetData></worksheet>)")}};
  write_file(folder / "b.xlsx", zip_bytes(files));
  EXPECT_EQ(table_text(folder / "b.xlsx"), "f m h\n- 2.5 2020-01-02T06:00:00\n2 - -");
}

TEST(TablePeers, LmdbIsAFolder) {
  const char* const data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data == nullptr ? "" : data) + "/oracles/formats/records.lmdb";
  if (data == nullptr || !file_exists(path)) GTEST_SKIP() << path << " is not there";
  const TemporaryFolder folder;
  write_file(folder / "env/data.mdb", read_file(path));
  EXPECT_EQ(table_text(folder / "env").substr(0, 23), "key value\n00000000 \n000");
}

}  // namespace
}  // namespace perigee::tables
