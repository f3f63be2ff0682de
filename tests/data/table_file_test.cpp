// Tables in files: what others' CSV files hold, numbers to the last bit, the same rows for any number of threads and size of chunk.
#include <gtest/gtest.h>
#include <zlib.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "src/core/error.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/decimal.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

std::string all_text(const Frame& frame) {
  std::string text;
  for (int64_t r = 0; r < frame.rows; ++r)
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      append_cell(frame.columns[c], frame.schema.columns[c], r, text);
      text += c + 1 == frame.columns.size() ? '\n' : ',';
    }
  return text;
}

std::string types(const TableSchema& schema) {
  std::string text;
  for (const ColumnSpec& spec : schema.columns) text += (text.empty() ? "" : " ") + spec.name + ":" + type_text(spec.type);
  return text;
}

Frame read_frame(const TemporaryFolder& folder, const std::string& text, ReadOptions options = {}) {
  write_file(folder / "t.csv", as_bytes(text));
  TableFile file(folder / "t.csv", std::move(options));
  return file.all();
}

TEST(TableFile, FindsOutTypes) {
  const TemporaryFolder folder;
  const Frame frame = read_frame(
      folder,
      "id,x,when,ok,zip,word\n1,0.5,2020-01-31,true,01234,a\n-2,,2020-02-01 12:30:45,false,00001,\"b, \"\"c\"\"\"\n3,1e3,NA,true,9,\n");
  EXPECT_EQ(types(frame.schema), "id:integer x:real when:time ok:boolean zip:text word:text");
  EXPECT_EQ(all_text(frame), "1,0.5,2020-01-31,true,01234,a\n-2,,2020-02-01T12:30:45,false,00001,b, \"c\"\n3,1000,,true,9,\n");
  EXPECT_EQ(types(read_frame(folder, "1;2,5;x\n3;4,5;y\n").schema), "c0:integer c1:text c2:text") << "the delimiter is found";
  EXPECT_EQ(types(read_frame(folder, R"({"a": 1, "b": "x", "l": [1, 2]}
{"a": 2.5, "b": null, "c": true}
)")
                      .schema),
            "a:real b:text l:list c:boolean");
}

TEST(TableFile, KeepsBlanksUnlessTheyFollowEachDelimiter) {
  const TemporaryFolder folder;
  EXPECT_EQ(all_text(read_frame(folder, "foo,bar,baz\n1, leading space,3\n 2 ,b,4\n")), "1, leading space,3\n2,b,4\n");
  EXPECT_EQ(all_text(read_frame(folder, "39, State-gov, \"a, b\"\n50, ?, x\n")), "39,State-gov,a, b\n50,,x\n");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, "foo,bar,baz\n1,This \"quotes\" must be escaped,3"); }),
             "a quote inside an unquoted field");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, "foo,bar,baz\n1,\"Hey, I missed \" it\",3"); }),
             "something follows a closing quote");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, "foo,bar\n1,\"open\n2,3\n"); }), "t.csv:2: a quoted field does not end");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, "foo,bar\n1,2,3\n"); }), "t.csv:2: the row has more fields");
}

TEST(TableFile, NamesManyColumnsInNoTime) {
  const TemporaryFolder folder;
  std::string head, row;
  for (int c = 0; c < 60'000; ++c) head += c ? ",a" : "a", row += c ? ",1" : "1";
  const auto start = std::chrono::steady_clock::now();
  const Frame frame = read_frame(folder, head + "\n" + row + "\n" + row + "\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << "a search among all names takes minutes";
  EXPECT_EQ(frame.schema.columns[0].name, "a");
  EXPECT_EQ(frame.schema.columns[59'999].name, "a_59999");
}

TEST(TableFile, WidensWhatWasGuessed) {
  const TemporaryFolder folder;
  std::string text = "a,b\n";
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + ",7\n";
  const Frame frame = read_frame(folder, text + "0.5,seven\n");
  EXPECT_EQ(types(frame.schema), "a:real b:text");
  EXPECT_EQ(frame.rows, 200'001);
  EXPECT_EQ(cell_text(frame.columns[0], frame.schema.columns[0], 200'000), "0.5");
  ReadOptions given{.schema = TableSchema{{{.name = "a", .type = Type::integer}, {.name = "b", .type = Type::integer}}}};
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, text + "0.5,1\n", given); }),
             "t.csv:200002: the value does not fit the column 'a'");
  given.threads = 3;
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_frame(folder, text + "1\n", given); }), "t.csv:200002: the row has fewer fields");
}

// Cells of text, of JSON Lines and of columns that have types, and more than are kept as examples.
TEST(TableFile, TellsAllCellsThatDoNotFit) {
  const TemporaryFolder folder;
  const ReadOptions options{.schema = TableSchema{{{.name = "x", .type = Type::integer}}}, .on_misfit = OnMisfit::keep};
  std::string csv = "x\n", json, matrix;
  for (int i = 0; i < 300; ++i)
    csv += i % 2 == 0 ? "1\n" : "q\n", json += i % 2 == 0 ? "{\"x\": 1}\n" : "{\"x\": \"q\"}\n", matrix += i % 2 == 0 ? "1\n" : "0.5\n";
  const auto told = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, as_bytes(text));
    TableFile file(folder / name, options);
    int64_t count = 0;
    std::string last;
    const Frame frame = file.all(uint64_t{1} << 30, [&](const Misfit& cell) {
      EXPECT_EQ(cell.row, 2 * count++ + 1);
      last = file.refusal_of(cell).what();
    });
    EXPECT_EQ(count, 150) << name;
    EXPECT_TRUE(frame.columns[0].is_missing(299) && !frame.columns[0].is_missing(298)) << name;
    EXPECT_HAS(refusal([&] { TableFile(folder / name, {.schema = options.schema}).all(); }), "the value does not fit the column 'x'");
    return last.substr(last.rfind('/') + 1);
  };
  EXPECT_EQ(
      told("t.csv", csv),
      "t.csv:301: the value does not fit the column 'x'; got 'q', expected an integer; change the column's type in the schema, or name "
      "what stands for a missing value: missing_values");
  EXPECT_EQ(told("t.jsonl", json),
            "t.jsonl:300: the value does not fit the column 'x'; got 'q', expected an integer; change the column's type in the schema, or "
            "write null for a missing value");
  EXPECT_EQ(told("t.mat", matrix).substr(0, 85), "t.mat: row 300: the value does not fit the column 'x'; got '0.5', expected an integer");
}

TEST(TableFile, ReadsNumbersToTheLastBit) {
  std::mt19937_64 random(7);
  char text[64 + kCsvPadding] = {};
  int64_t fast = 0;
  for (int i = 0; i < 400'000; ++i) {
    double value = 0;
    const uint64_t bits = random();
    if (i % 4 == 0) std::memcpy(&value, &bits, 8);
    else if (i % 4 == 1) value = static_cast<double>(static_cast<int64_t>(bits)) * 1e-18;
    else if (i % 4 == 2) value = static_cast<double>(bits % 1'000'000) / 1000;
    else value = std::ldexp(static_cast<double>(bits >> 11), static_cast<int>(bits % 60) - 80);
    if (!std::isfinite(value)) continue;
    std::memset(text, 0, sizeof text);
    char* end = i % 8 < 4 ? std::to_chars(text, text + 64, value).ptr : text + std::snprintf(text, 64, i % 3 ? "%.17g" : "%.19g", value);
    double expected = 0, got = 0;
    std::from_chars(text, end, expected);
    const char* const stop = parse_decimal(text, got);
    if (stop == nullptr) continue;
    ++fast;
    ASSERT_EQ(stop, end) << text;
    ASSERT_EQ(std::memcmp(&got, &expected, 8), 0) << text;
  }
  EXPECT_GT(fast, 250'000);
  for (const char* tie : {"9007199254740993", "9007199254740993e-0", "4503599627370496.5", "4503599627370497.5", "1.5e22",
                          "12345678901234567e-10", "0.000e5", "-0.0", "9223372036854775807"}) {
    std::memset(text, 0, sizeof text);
    std::strcpy(text, tie);
    double expected = 0, got = 1;
    std::from_chars(text, text + std::strlen(text), expected);
    ASSERT_NE(parse_decimal(text, got), nullptr) << tie;
    EXPECT_EQ(std::memcmp(&got, &expected, 8), 0) << tie;
  }
}

TEST(TableFile, HasTheSameRowsForAnyThreadsAndChunks) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::string text = "n,word,when\r\n";
  for (int i = 0; i < 3000; ++i) {
    const uint64_t draw = random();
    text += std::to_string(static_cast<double>(draw % 100'000) / 7) + ",";
    text += draw % 3 == 0 ? "plain" : draw % 3 == 1 ? "\"with, delimiter\nand \"\"quotes\"\"\"" : "";
    text += ",20" + std::to_string(10 + draw % 80) + "-0" + std::to_string(1 + draw % 9) + "-1" + std::to_string(draw % 10) +
            (draw % 2 ? "\r\n" : "\n");
  }
  const std::string once = all_text(read_frame(folder, text));
  for (const int threads : {1, 2, 4})
    for (const size_t bytes : {size_t{300}, size_t{5000}, size_t{1} << 20})
      EXPECT_EQ(all_text(read_frame(folder, text, {.threads = threads, .chunk_bytes = bytes})), once) << threads << " " << bytes;
}

TEST(TableFile, ReadsCompressedFilesAsTheyCome) {
  const TemporaryFolder folder;
  std::string text = "a,b\n";
  for (int64_t i = 0; i < 50'000; ++i) text += std::to_string(i * i) + "," + std::to_string(i) + ".25\n";
  write_file(folder / "plain", as_bytes(text));
  const std::string expected = all_text(read_table(folder / "plain"));
  write_file(folder / "t.gz", gzip(as_bytes(text)));
  EXPECT_EQ(all_text(read_table(folder / "t.gz")), expected);
  Bytes two = gzip(as_bytes(text.substr(0, 1000)));
  const Bytes rest = gzip(as_bytes(text.substr(1000)));
  two.insert(two.end(), rest.begin(), rest.end());
  write_file(folder / "two.gz", two);
  EXPECT_EQ(all_text(read_table(folder / "two.gz")), expected) << "of two members";
  two.resize(two.size() + (size_t{1} << 17));
  write_file(folder / "zeros.gz", two);
  EXPECT_EQ(all_text(read_table(folder / "zeros.gz")), expected) << "with zeros behind, as of a tape";
  for (const char* program : {"xz", "zstd"}) {
    if (std::system((std::string("command -v ") + program + " > /dev/null && " + program + " -q -k -f -c '" + folder / "plain" + "' > '" +
                     folder / program + "'")
                        .c_str()) != 0)
      continue;
    EXPECT_EQ(all_text(read_table(folder / program)), expected) << program;
  }
  Bytes cut = gzip(as_bytes(text));
  cut.resize(cut.size() / 2);
  write_file(folder / "cut.gz", cut);
  EXPECT_HAS(refusal(ErrorKind::data, [&] { read_table(folder / "cut.gz"); }), "end too early");
}

// Files of https://github.com/max-mapper/csv-spectrum and https://github.com/sineemore/csv-test-data, with what is in them as JSON.
TEST(TableFile, ReadsWhatOthersWrite) {
  const char* const data = std::getenv("PERIGEE_DATA");
  const std::string root = std::string(data == nullptr ? "" : data) + "/oracles/third_party";
  if (data == nullptr || !folder_exists(root)) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  size_t read = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string(), stem = entry.path().stem().string();
    const bool spectrum = path.find("csv-spectrum") != path.npos;
    if (!path.ends_with(".csv") || (!spectrum && path.find("csv-test-data") == path.npos)) continue;
    SCOPED_TRACE(path);
    const std::string json = spectrum ? root + "/csv-spectrum/json/" + stem + ".json" : path.substr(0, path.size() - 4) + ".json";
    const std::string content(as_text(read_file(path)));
    Dialect dialect;
    const bool bare = stem == "location_coordinates";  // quotes inside unquoted fields, which RFC 4180 has not
    if (bare) dialect.quote = 0;
    size_t at = content.starts_with("\xef\xbb\xbf") ? 3 : 0;
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> fields;
    bool good = true;
    while (good && at < content.size()) {
      good = next_row(content, dialect, &at, &fields);
      if (good) rows.push_back(fields);
      good = good && rows.back().size() == rows[0].size();
    }
    if (stem.starts_with("bad-")) {
      refused += !good;
      continue;
    }
    if (!file_exists(json)) continue;
    ASSERT_TRUE(good);
    // The text of every cell: a schema of texts, with names by number.
    TableSchema schema;
    for (size_t c = 0; c < rows[0].size(); ++c) schema.columns.push_back({.name = "#" + std::to_string(c)});
    ReadOptions options{.schema = schema, .find_delimiter = false};
    options.dialect.header = false;
    options.dialect.missing.clear();
    options.dialect.delimiter = dialect.delimiter;
    options.dialect.quote = dialect.quote;
    const Frame frame = TableFile(path, options).all();
    ASSERT_EQ(frame.rows, static_cast<int64_t>(rows.size()));
    Json expected = Json::parse(as_text(read_file(json)), json);
    if (expected.is_object()) expected = Json(Json::Array{expected});
    const bool objects = !expected.as_array().empty() && expected.as_array()[0].is_object();
    for (size_t r = 0; r < expected.as_array().size(); ++r)
      for (size_t c = 0; c < schema.columns.size(); ++c) {
        const std::string cell(frame.columns[c].text(static_cast<int64_t>(r + objects)));
        const Json& row = expected.as_array()[r];
        const Json* value = objects ? row.find(frame.columns[c].text(0)) : &row.as_array()[c];
        if (bare && c == 0) continue;  // the file of what is expected has another number there
        ASSERT_NE(value, nullptr);
        EXPECT_EQ(cell, value->as_string());
      }
    ++read;
  }
  EXPECT_GE(read, 12u);
  std::printf("%zu files read, %zu refused\n", read, refused);
}

}  // namespace
}  // namespace perigee::tables
