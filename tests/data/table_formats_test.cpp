// Tables in the formats of other programs: the same values as those programs say, and damage refused where it is. The oracles' files were written by
// SQLite, h5py, openpyxl, TensorFlow's writer, mosaicml-streaming, webdataset and lmdb.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "src/core/error.h"
#include "src/data/table/columnar/records/mds.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/archive/zip.h"
#include "src/io/codec/compress.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

std::string oracles() {
  const char* const data = std::getenv("PERIGEE_DATA");
  const std::string folder = std::string(data == nullptr ? "" : data) + "/oracles/formats/";
  return data != nullptr && folder_exists(folder) ? folder : "";
}

#define NEEDS_ORACLES()                 \
  const std::string folder = oracles(); \
  if (folder.empty()) GTEST_SKIP() << "PERIGEE_DATA has no oracles"

Frame all(const std::string& path) { return TableFile(path, {}).all(); }

std::string types(const TableSchema& schema) {
  std::string text;
  for (const ColumnSpec& spec : schema.columns) text += (text.empty() ? "" : " ") + spec.name + ":" + type_text(spec.type);
  return text;
}

std::string row_text(const Frame& frame, int64_t row) {
  std::string text;
  for (size_t c = 0; c < frame.columns.size(); ++c)
    text += (c ? "|" : "") + (frame.columns[c].is_missing(row) ? "-" : cell_text(frame.columns[c], frame.schema.columns[c], row));
  return text;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Json json_at(const std::string& path) { return Json::parse(as_text(read_file(path)), path); }

// --- SQLite --------------------------------------------------------------------------------------------------------------------

TEST(TableFormats, SqliteReadsAsItsOwnLibrary) {
  NEEDS_ORACLES();
  const Frame frame = all(folder + "table.sqlite");
  const Json expected = json_at(folder + "table.sqlite.expected.json");
  EXPECT_EQ(types(frame.schema), "id:integer sl:real sw:real name:text note:text n:text");
  ASSERT_EQ(frame.rows, static_cast<int64_t>(expected.as_array().size()));
  for (int64_t r = 0; r < frame.rows; ++r) {
    const Json::Array& row = expected.as_array()[static_cast<size_t>(r)].as_array();
    for (size_t c = 0; c < row.size(); ++c) {
      SCOPED_TRACE(std::to_string(r) + " " + std::to_string(c));
      ASSERT_EQ(frame.columns[c].is_missing(r), row[c].is_null());
      if (row[c].is_null()) continue;
      if (c == 4) EXPECT_EQ(hex(frame.columns[c].text(r)), row[c].as_string());
      else if (row[c].is_string()) EXPECT_EQ(frame.columns[c].text(r), row[c].as_string());
      else if (c == 5) EXPECT_EQ(frame.columns[c].text(r), row[c].dump());
      else EXPECT_EQ(frame.columns[c].number(r), row[c].as_number());
    }
  }
  EXPECT_HAS(refusal([&] { all(folder + "table.sqlite#other"); }), "the database has no such table; got 'other', expected one of 'iris'");
  EXPECT_EQ(all(folder + "table.sqlite#iris").rows, frame.rows);
}

// --- HDF5 ----------------------------------------------------------------------------------------------------------------------

TEST(TableFormats, Hdf5ReadsAsH5py) {
  NEEDS_ORACLES();
  const std::string path = folder + "arrays.h5";
  const Bytes archive = read_file(path + ".expected.npz");
  size_t compared = 0;
  for (const ZipEntry& entry : zip_entries(archive, path)) {
    const std::string name = entry.name.substr(0, entry.name.size() - 4);  // without .npy
    SCOPED_TRACE(name);
    if (name == "names" || name == "fixed") continue;  // texts: below
    const Tensor tensor = parse_npy(zip_content(archive, entry, path), path);
    const Frame frame = all(path + "#" + name);
    ASSERT_EQ(frame.rows, tensor.shape()[0]);
    const Tensor numbers = tensor.to(Dtype::f64);
    const auto width = static_cast<size_t>(tensor.elements() / frame.rows);
    ASSERT_EQ(frame.columns.size(), width);
    for (int64_t r = 0; r < frame.rows; ++r)
      for (size_t c = 0; c < width; ++c) EXPECT_EQ(frame.columns[c].number(r), numbers.data<double>()[static_cast<size_t>(r) * width + c]);
    ++compared;
  }
  EXPECT_EQ(compared, 6u);
  EXPECT_EQ(row_text(all(path + "#names"), 2), "ccc");
  EXPECT_EQ(row_text(all(path + "#fixed"), 1), "cde");
  EXPECT_EQ(types(all(path + "#group").schema), "u8[0]:integer u8[1]:integer u8[2]:integer u8[3]:integer");
  EXPECT_HAS(refusal([&] { all(path); }), "the data sets have different numbers of rows");
  EXPECT_HAS(refusal([&] { all(path + "#nothing"); }), "the HDF5 file has no such data set or group; got 'nothing'");
}

// --- Spreadsheets --------------------------------------------------------------------------------------------------------------

TEST(TableFormats, XlsxReadsItsSheets) {
  NEEDS_ORACLES();
  const Frame frame = all(folder + "book.xlsx");
  EXPECT_EQ(types(frame.schema), "id:integer name:text value:real date:time flag:boolean");
  ASSERT_EQ(frame.rows, 20);
  EXPECT_EQ(row_text(frame, 0), "0|row <0> & \"q\"|0|2022-01-01|true");
  EXPECT_EQ(row_text(frame, 19).substr(0, 18), "19|row <19> & \"q\"|");
  EXPECT_EQ(row_text(all(folder + "book.xlsx#second"), 0), "1|2|3");
  EXPECT_HAS(refusal([&] { all(folder + "book.xlsx#third"); }),
             "the workbook has no such sheet; got 'third', expected one of 'Sheet', 'second'");
}

// --- Records -------------------------------------------------------------------------------------------------------------------

TEST(TableFormats, TfRecordReadsExamples) {
  NEEDS_ORACLES();
  const Frame frame = all(folder + "examples.tfrecord");
  const Json expected = json_at(folder + "examples.tfrecord.expected.json");
  ASSERT_EQ(frame.rows, static_cast<int64_t>(expected.as_array().size()));
  for (int64_t r = 0; r < frame.rows; ++r) {
    const Json& row = expected.as_array()[static_cast<size_t>(r)];
    EXPECT_EQ(frame.columns[frame.schema.at("label", "")].whole[static_cast<size_t>(r)], row.find("label")->as_int());
    EXPECT_EQ(frame.columns[frame.schema.at("name", "")].text(r), row.find("name")->as_string());
    const Column &weights = frame.columns[frame.schema.at("weights", "")], &pixels = frame.columns[frame.schema.at("pixels", "")];
    ASSERT_EQ(weights.type, Type::list);
    EXPECT_EQ(cell_json(weights, {}, r).dump(), row.find("weights")->dump());
    EXPECT_TRUE(md5_hex(as_bytes(pixels.text(r))) == row.find("pixels")->as_string() ||
                hex(pixels.text(r)) == row.find("pixels")->as_string());
  }
  Bytes bytes = read_file(folder + "examples.tfrecord");
  bytes[60] ^= std::byte{1};
  const TemporaryFolder mine;
  write_file(mine / "damaged.tfrecord", bytes);
  EXPECT_HAS(refusal([&] { all(mine / "damaged.tfrecord"); }), "the checksum of a record differs: the file is damaged");
}

TEST(TableFormats, MdsReadsItsShards) {
  NEEDS_ORACLES();
  const Frame frame = all(folder + "mds");
  const Json expected = json_at(folder + "mds.expected.json");
  ASSERT_EQ(frame.rows, static_cast<int64_t>(expected.as_array().size()));
  for (int64_t r = 0; r < frame.rows; ++r) {
    const Json& row = expected.as_array()[static_cast<size_t>(r)];
    for (const char* name : {"number", "score", "small"})
      EXPECT_EQ(frame.columns[frame.schema.at(name, "")].number(r), row.find(name)->as_number());
    EXPECT_EQ(frame.columns[frame.schema.at("words", "")].text(r), row.find("words")->as_string());
    EXPECT_EQ(hex(frame.columns[frame.schema.at("raw", "")].text(r)), row.find("raw")->as_string());
    const Json x = cell_json(frame.columns[frame.schema.at("x", "")], {}, r);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(x.as_array()[i].as_number(), row.find("x")->as_array()[i].as_number());
  }
}

TEST(TableFormats, LmdbAndWebDatasetReadTheirRecords) {
  NEEDS_ORACLES();
  const Frame records = all(folder + "records.lmdb");
  ASSERT_EQ(records.rows, 200);
  EXPECT_EQ(types(records.schema), "key:text value:text");
  for (int64_t r = 0; r < 200; ++r) {
    std::string key = std::to_string(r);
    EXPECT_EQ(records.columns[0].text(r), std::string(8 - key.size(), '0') + key);
    EXPECT_EQ(records.columns[1].text(r), std::string(static_cast<size_t>(r % 37), static_cast<char>(r)));
  }
  const Frame samples = all(folder + "samples-000000.tar");
  EXPECT_EQ(types(samples.schema), "key:text cls:integer json:text npy:list txt:text");
  EXPECT_EQ(cell_text(samples.columns[0], samples.schema.columns[0], 1), "class1/0001");
  EXPECT_EQ(samples.columns[1].whole[1], 1);
  EXPECT_EQ(samples.columns[4].text(0), "text 0");
}

// --- Damage --------------------------------------------------------------------------------------------------------------------

// Bytes that are changed, and files that are cut short: what is accepted has columns as long as its rows, the rest is an Error of the data.
TEST(TableFormats, DamageIsAnError) {
  NEEDS_ORACLES();
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"table.sqlite", ""},      {"arrays.h5", "i64_gzip_shuffle"}, {"arrays.h5", "names"}, {"book.xlsx", ""},
      {"examples.tfrecord", ""}, {"samples-000000.tar", ""},        {"records.lmdb", ""},   {"mds/shard.00001.mds", ""}};
  for (const auto& [name, part] : kFiles) {
    SCOPED_TRACE(name);
    const Bytes whole = read_file(folder + name);
    size_t refused = 0;
    uint64_t state = 1;
    const auto draw = [&](uint64_t below) { return state = state * 6364136223846793005 + 1442695040888963407, (state >> 33) % below; };
    for (int turn = 0; turn < 300; ++turn) {
      Bytes bytes = whole;
      if (turn % 10 == 0) bytes.resize(draw(whole.size()));
      // Most of the heads, where sizes and places stand.
      for (uint64_t i = 0; !bytes.empty() && i < 1 + draw(4); ++i)
        bytes[draw(draw(2) == 0 ? std::min<uint64_t>(bytes.size(), 512) : bytes.size())] = static_cast<std::byte>(draw(256));
      try {
        const auto file =
            std::string_view(name).ends_with(".mds") ? open_mds_shard(name, as_text(bytes)) : open_columnar_content(name, part, bytes);
        if (file == nullptr) continue;
        for (int64_t chunk = 0; chunk < std::min<int64_t>(file->chunks(), 4); ++chunk)
          for (size_t c = 0; c < file->schema().columns.size(); ++c) {
            const size_t one[] = {c};
            if (!file->refusal(c).empty()) continue;
            const Frame frame = file->read(chunk, one);
            ASSERT_EQ(frame.columns.at(0).size(), frame.rows);
          }
      } catch (const Error& error) {
        ++refused;
        ASSERT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::resources) << error.what();
      }
    }
    EXPECT_GE(refused, 20u);
  }
}

// --- Texts ---------------------------------------------------------------------------------------------------------------------

Frame of_text(const char* name, const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / name, as_bytes(text));
  return all(folder / name);
}

constexpr const char* kArff =
    "% weather, as Weka has it\n\n@RELATION weather\n@attribute outlook {sunny, 'rainy day', overcast}\n@ATTRIBUTE temperature REAL\n"
    "@attribute 'when it was' date \"yyyy-MM-dd HH:mm\"\n@attribute note string\n@data\n"
    "sunny,85.5,\"2020-01-02 03:04\",'it\\'s hot'\n% between\n'rainy day',?,?,?\n{1 3.5, 3 'x, y'}\n";

TEST(TableFormats, ArffReadsDenseAndSparseRows) {
  const Frame frame = of_text("weather.arff", kArff);
  EXPECT_EQ(types(frame.schema), "outlook:category temperature:real when it was:time note:text");
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(row_text(frame, 0), "sunny|85.5|2020-01-02 03:04|it's hot");
  EXPECT_EQ(row_text(frame, 1), "rainy day|-|-|-");
  EXPECT_EQ(row_text(frame, 2), "sunny|3.5|1970-01-01 00:00|x, y");
  const std::string head = "@relation r\n@attribute a {x, y}\n@attribute b numeric\n@data\n";
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "x,1\nz,2\n"); }), "t.arff:6:1: 'a' has not this value; got 'z'");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "x,1\nx,two\n"); }), "t.arff:6:3: the value does not fit the attribute 'b'; got 'two'");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "x\n"); }), "the row has not a value for each attribute");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "x,1,2\n"); }), "the row has more values than attributes");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "'x,1\n"); }), "a quote does not end");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "{2 1}\n"); }),
             "a sparse row has a number of no attribute, or one that does not ascend");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "{1 1} 3\n"); }), "something follows a sparse row (weights of rows are not read)");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head + "{1 1\n"); }), "a sparse row does not end");
  EXPECT_HAS(refusal([&] { of_text("t.arff", head); }), "the table has no rows");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@data\n1\n"); }), "the ARFF file has no @attribute");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a real\n"); }), "the ARFF file has no @data");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a relational\n"); }), "an attribute has a type that is not read");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a {x\n"); }), "the values of a nominal attribute do not end");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a {}\n"); }), "a nominal attribute has no values");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a {x, x}\n"); }), "a nominal attribute has a value twice");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a real\n@attribute a real\n"); }),
             "an attribute has no name, or that of another, or there are too many");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@other\n"); }), "the head of an ARFF file has a line that is not known");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a date \"QQ\"\n"); }),
             "the format of a date has letters that are not known");
  EXPECT_HAS(refusal([&] { of_text("t.arff", "@relation r\n@attribute a date \"yyyy'T\"\n"); }),
             "the format of a date has a quote that does not end");
}

TEST(TableFormats, SvmLightReadsSparseRows) {
  const Frame frame = of_text("rows.svm", "# a comment\n1 qid:3 1:0.5 4:-2e1 # row\n\n-1 qid:4 2:7\r\n");
  EXPECT_EQ(types(frame.schema), "f1:real f2:real f3:real f4:real qid:integer label:integer");
  ASSERT_EQ(frame.rows, 2);
  EXPECT_EQ(row_text(frame, 0), "0.5|0|0|-20|3|1");
  EXPECT_EQ(row_text(frame, 1), "0|7|0|0|4|-1");
  EXPECT_EQ(types(of_text("zero.libsvm", "0.5 0:1\n2 1:1\n").schema), "f0:real f1:real label:real");
  // Columns that a job knows and no row of this file has are zeros.
  const TemporaryFolder folder;
  write_file(folder / "test.svm", as_bytes("1 1:5\n"));
  ReadOptions options{
      .schema = TableSchema{
          .columns = {{.name = "f9", .type = Type::real}, {.name = "f1", .type = Type::real}, {.name = "f0", .type = Type::real}}}};
  EXPECT_EQ(row_text(TableFile(folder / "test.svm", options).all(), 0), "0|5|0");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "1 1:1\n1 2\n"); }),
             "t.svm:2:3: a row of an SVMLight file has a value without a number; got '2'");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "1 x:1\n"); }), "a row of an SVMLight file has a value whose number cannot be read");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "1 99999:1\n"); }), "a row of an SVMLight file has a value with too high a number");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "1 2:1 1:1\n"); }), "the values of a row of an SVMLight file do not ascend");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "1,2 1:1\n"); }),
             "a row of an SVMLight file has no number here; got '1,2', expected one label for each row");
  EXPECT_HAS(refusal([&] { of_text("t.svm", "# nothing\n"); }), "the table has no rows");
}

TEST(TableFormats, TsReadsSeriesAsRows) {
  const Frame frame = of_text("series.ts", "#c\n@problemName p\n@timeStamps false\n@classLabel true a b\n@data\n1,2,?:3,4,5:a\n6:7:b\n");
  EXPECT_EQ(types(frame.schema), "series:integer step:integer dim_0:real dim_1:real label:category");
  ASSERT_EQ(frame.rows, 4);
  EXPECT_EQ(row_text(frame, 2), "1|2|-|5|a");
  EXPECT_EQ(row_text(frame, 3), "2|0|6|7|b");
  const Frame stamped = of_text("s.ts", "@timeStamps true\n@classLabel false\n@data\n(2020-01-01 00:00:00,1.5),(2020-01-02 00:00:00,2)\n");
  EXPECT_EQ(types(stamped.schema), "series:integer step:time dim_0:real");
  EXPECT_EQ(row_text(stamped, 1), "1|2020-01-02|2");
  EXPECT_EQ(row_text(of_text("n.ts", "@timeStamps true\n@targetLabel true\n@data\n(5,1.5),(7,2):0.25\n"), 1), "1|7|2|0.25");
  const std::string head = "@classLabel true a b\n@data\n";
  EXPECT_HAS(refusal([&] { of_text("t.ts", head + "1,2:a\n1,x:b\n"); }), "t.ts:4:3: the value of a step is no number; got 'x'");
  EXPECT_HAS(refusal([&] { of_text("t.ts", head + "1,2:c\n"); }), "the label of a series is none of @classLabel");
  EXPECT_HAS(refusal([&] { of_text("t.ts", head + "1:2:a\n1:a\n"); }), "a series has not as many parts as the first");
  EXPECT_HAS(refusal([&] { of_text("t.ts", head + "1:a\n1:2:a\n"); }), "a series has more parts than the first");
  EXPECT_HAS(refusal([&] { of_text("t.ts", head + "1,2:1:a\n"); }), "the dimensions of a series have different lengths");
  EXPECT_HAS(refusal([&] { of_text("t.ts", head); }), "the table has no rows");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@classLabel true\n@data\n"); }), "the labels of a .ts file are not named");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@problemName p\n"); }), "the .ts file has no @data");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@problemName p\nx\n"); }), "the head of a .ts file has a line that is not known");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@timeStamps true\n@data\n1,2\n"); }), "a step has no time, as @timeStamps says");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@timeStamps true\n@data\n(1,2),(x,3)\n"); }), "the time of a step cannot be read");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@timeStamps true\n@data\n(1,2),3\n"); }), "a step is none");
  EXPECT_HAS(refusal([&] { of_text("t.ts", "@targetLabel true\n@data\n1:x\n"); }), "the target of a series is no number");
}

// The pattern of DataVec's own test of its RegexLineRecordReader, on lines as there. Python's expressions are the truth in tests/repl/data_test.py.
TEST(TableFormats, LinesAreTakenApartByAPattern) {
  const auto read = [](const std::string& text, const std::string& schema) {
    return TableFile("log.txt", options_of_schema(Json::parse(schema, "schema"), "schema"), text);
  };
  ReadOptions options;
  options.dialect.lines = R"((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{3}) (\d+) ([A-Z]+) (.*))";
  const std::string log =
      "2016-01-01 23:59:59.001 1 DEBUG First entry message!\n2016-01-01 23:59:59.002 2 INFO Second entry message!\n"
      "2016-01-01 23:59:59.003 3 WARN Third, \"entry\" message!";
  const Frame frame = TableFile("log.txt", options, log).all();
  EXPECT_EQ(types(frame.schema), "c0:time c1:integer c2:text c3:text");
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(row_text(frame, 0), "2016-01-01T23:59:59.001|1|DEBUG|First entry message!");
  EXPECT_EQ(row_text(frame, 2), "2016-01-01T23:59:59.003|3|WARN|Third, \"entry\" message!");

  options.dialect.lines = R"((?<host>\S+) (?:(?<status>\d+)|-))";
  options.dialect.skip = 1;
  TableFile named("log.txt", options, "# made by hand\r\na 200\r\n\r\nb -\r\n");
  EXPECT_EQ(types(named.schema()), "host:text status:integer");
  const Json schema = schema_json(named.schema(), &named.dialect());
  Frame again = read("# another\nc 404\n", schema.dump()).all();
  EXPECT_EQ(row_text(again, 0), "c|404");
  const Frame rows = named.all();
  ASSERT_EQ(rows.rows, 2);
  EXPECT_EQ(row_text(rows, 1), "b|-");
  EXPECT_HAS(refusal([&] { TableFile("log.txt", options, "#\na 200\nb x\n").all(); }),
             "log.txt:3: the line does not match the pattern 'lines'; got 'b x'");
  EXPECT_HAS(refusal([&] { read("#\nc 404\n\nd 99999999999999999999\n", schema.dump()).all(); }), "log.txt:4");
  options.dialect.lines = "\\d+";
  EXPECT_HAS(refusal([&] { TableFile("log.txt", options, log).all(); }), "the pattern has no groups, and each is a column; got '\\d+'");
  options.dialect.lines = "(a";
  EXPECT_HAS(refusal([&] { TableFile("log.txt", options, log).all(); }), "the pattern is no regular expression");
  options.dialect.lines = "(a*)";
  EXPECT_HAS(refusal([&] { TableFile("log.txt", options, std::string(size_t{2} << 20, 'a')).all(); }), "a line does not end");
}

TEST(TableFormats, CompressedFilesAreUnpacked) {
  const TemporaryFolder folder;
  write_file(folder / "weather.arff.gz", gzip(as_bytes(kArff)));
  EXPECT_EQ(row_text(all(folder / "weather.arff.gz"), 1), "rainy day|-|-|-");
}

TEST(TableFormats, ArraysAreColumns) {
  const TemporaryFolder folder;
  const Tensor x = Tensor::from<float>(Shape({2, 2}), {1, 2, 3, 4}), y = Tensor::from<int64_t>(Shape({2}), {7, 8}),
               z = Tensor::from<int64_t>(Shape({3}), {1, 2, 3});
  std::vector<std::pair<std::string, Bytes>> files{{"x.npy", npy_bytes(x)}, {"y.npy", npy_bytes(y)}};
  write_file(folder / "a.npz", zip_bytes(files));
  const Frame frame = all(folder / "a.npz");
  EXPECT_EQ(types(frame.schema), "x[0]:real x[1]:real y:integer");
  EXPECT_EQ(row_text(frame, 1), "3|4|8");
  EXPECT_EQ(types(all(folder / "a.npz#y").schema), "y:integer");
  EXPECT_HAS(refusal([&] { all(folder / "a.npz#w"); }), "the archive has no such array; got 'w'");
  files.emplace_back("z.npy", npy_bytes(z));
  write_file(folder / "b.npz", zip_bytes(files));
  EXPECT_HAS(refusal([&] { all(folder / "b.npz"); }), "the arrays have different numbers of rows");
  write_file(folder / "t.csv", as_bytes("a,b\n1,2\n"));
  EXPECT_HAS(refusal([&] { all(folder / "t.csv#part"); }), "the file has one table and no parts; got #part");
}

}  // namespace
}  // namespace perigee::tables
