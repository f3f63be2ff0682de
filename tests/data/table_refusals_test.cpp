// More errors of steps, formulas, sequences and records, beside those of table_errors_test.cpp: each with what helps.
#include <gtest/gtest.h>

#include <functional>

#include "src/core/error.h"
#include "src/data/source.h"
#include "src/data/table/columnar/columnar.h"
#include "src/data/table/reading/byte_stream.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "src/io/plot/tensorboard.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

void expect_said(const std::string& text, const std::string& said) {
  EXPECT_NE(text.find(said), std::string::npos) << text << "\nexpected: " << said;
}

struct Wrong {
  const char* what;
  const char* said;
};

constexpr const char* kTable = "n,m,a,b,t\n1,4,red,x,2020-06-01\n2,5,blue,y,2020-01-01\n";

constexpr Wrong kSteps[] = {
    {R"~([{"filtre": "n > 1"}])~", "there is no such step; got 'filtre', expected one of "},
    {R"~([{"derive": {"x": "lowr(a)"}}])~", "there is no such function; got 'lowr'; did you mean 'lower'?"},
    {R"~([{"resample": "t", "every": "0 s"}])~", "'every' must be longer; got 0 s, expected 1 ms or more"},
    {R"~([{"resample": "t", "every": "1 ms"}])~",
     "the step makes too many rows; expected at most 100 million; a longer 'every', or a time that is far from all others taken out"},
    {R"~([{"lags": "n", "by": []}])~", "'by' must name rows; expected {1, 2, 12}: before; {-1}: after"},
    {R"~([{"seasonal": "t", "period": []}])~", R"('period' is missing; expected "year", "week", "day", "12 hours")"},
    {R"~([{"seasonal": "t", "period": ["0 s"]}])~", "'period' must be longer than nothing; got 0 s"},
    {R"~([{"windows": "t", "size": "1 day"}])~", R"(the time is missing or goes back; a step {"sort": "t"} before it sorts the rows)"},
    {R"~([{"impute": "a", "by": "mean"}])~", R"(got text, expected a number; by = "mode" takes the most frequent value)"},
    {R"~([{"filter": "n > 9"}, {"category": "a"}])~", "the column 'a' has no categories; give them: categories = {...}"},
};

Frame frame_of(const TemporaryFolder& folder, const std::string& content = kTable) {
  write_file(folder / "t.csv", as_bytes(content));
  return TableFile(folder / "t.csv", {}).all();
}

TEST(TableRefusals, OfSteps) {
  const TemporaryFolder folder;
  for (const Wrong& wrong : kSteps) {
    const std::string said = refusal([&] {
      Frame frame = frame_of(folder);
      Steps(Json::parse(wrong.what, "steps"), "steps", folder.path()).run(frame);
    });
    expect_said(said, wrong.said);
    EXPECT_TRUE(said.starts_with("steps")) << "no place: " << said;
  }
  expect_said(refusal([&] { Steps(Json::parse(R"([{"filter": "n > 1"}])", "s"), "steps", folder.path(), Json::parse("[]", "s")); }),
              "the fitted states are not those of these steps; got 0");
  std::string many = "n,a\n";
  for (int i = 0; i <= 100'000; ++i) many += "1,t" + std::to_string(i) + "\n";
  for (const auto& [step, said] :
       {std::pair{"index", "too many different values for categories; expected at most 100000; hash(x, n) makes n of them"},
        {"one_hot", "too many different values for categories"}})
    expect_said(refusal([&, &step = step] {
                  Frame frame = frame_of(folder, many);
                  Steps(Json::parse(std::string(R"([{")") + step + R"(": "a"}])", "steps"), "steps", folder.path()).run(frame);
                }),
                said);
  expect_said(refusal([&] {
                Frame frame = frame_of(folder, many.substr(0, 110'000));
                Steps(Json::parse(R"([{"one_hot": "a"}])", "steps"), "steps", folder.path()).run(frame);
              }),
              "the column 'a' has too many categories; got ");
  // 10,001 values of an expression, and one that is too long.
  std::string sum = "n", list = "n in (1";
  for (int i = 0; i < 20'000; ++i) sum += "+n", list += ",1";
  for (const auto& [formula, said] : {std::pair{sum, "the formula is too long"}, {list + ")", "the list is too long"}})
    expect_said(refusal([&, &formula = formula] {
                  Frame frame = frame_of(folder);
                  Steps(Json::parse(R"([{"derive": {"x": ")" + formula + R"("}}])", "steps"), "steps", folder.path()).run(frame);
                }),
                said);
}

TEST(TableRefusals, OfSequences) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes(kTable));
  const auto said = [&](const std::string& more) {
    const Json json = Json::parse(R"({"type": "table", "file": "t.csv", "steps": [{"slide": 2}], )" + more + "}", "source");
    return refusal([&] { open_source(Config(json, "train", ErrorKind::data), folder.path()); });
  };
  expect_said(said(R"("targets": ["n", "a"])"), "column 'a': the target is no number; got text");
  expect_said(said(R"("targets": ["n", "m"], "target_steps": "each")"), "takes one target");
  expect_said(said(R"("target": "n", "features": ["t"])"),
              "column 't': the column is no feature of a step; got time; leave it out, or derive numbers of it");
}

TEST(TableRefusals, OfRowsAndColumns) {
  const TemporaryFolder folder;
  expect_said(refusal([&] { frame_of(folder, "a,b\n1,2\n1,2,3\n"); }), "fields that have the delimiter in them stand in quotes");
  expect_said(refusal([&] { frame_of(folder, std::string(200'000, ',') + "\n"); }), "the first row has too many fields; got 65537");
  expect_said(refusal([&] { frame_of(folder, "{\"k\": \"" + std::string(2 << 20, 'x') + "\"}\n"); }),
              "t.csv:1: the first row is longer than 1 MiB");
  std::string object = "{\"k\": 1";
  for (int i = 0; i < 70'000; ++i) object += ", \"" + std::to_string(i) + "\": 1";
  expect_said(refusal([&] { frame_of(folder, object + "}\n"); }), "t.csv:1: the objects have too many keys");
}

TEST(TableRefusals, OfPackedFiles) {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  std::string packed =
      "\xfd\x37zXZ\0\0\4\xe6\xd6\xb4\x46\2\0\x21\1\x16\0\0\0\x74\x2f\xe5\xa3\1\0\x0b"
      "a,b\n1,2\n3,4\n\0\x10\x55\xe3\x96\x32\x2f\x91\x5e\0\1\x24\x0c\xa6\x18\xd8\xd8\x1f\xb6\xf3\x7d\1\0\0\0\0\4YZ"s;
  const auto read = [&] {
    write_file(folder / "t.csv.xz", as_bytes(packed));
    return refusal([&] { EXPECT_EQ(TableFile(folder / "t.csv.xz", {}).all().rows, 2); });
  };
  EXPECT_EQ(read(), "accepted");
  packed[24] = '\x7f';  // a kind of piece that there is not
  expect_said(read(), "t.csv.xz: the compressed data are damaged: status 9 of liblzma");
  // A dictionary of 1.5 GiB.
  packed = "\xfd\x37zXZ\0\0\4\xe6\xd6\xb4\x46\2\0\x21\1\x27\0\0\0\xb0\xb0\x72\xeb\1\0\0"s;
  expect_said(read(), "t.csv.xz: decompressing needs more memory than allowed (256 MiB); unpack it first");
  // Files that are mapped are unpacked into one without a name.
  write_file(folder / "t.gz", gzip(as_bytes(std::string(3 << 20, 'x'))));
  expect_said(refusal([&] { unpacked_file(folder / "t.gz", 1 << 20); }),
              "t.gz: the file is too large for one that is compressed as a whole; expected at most 1 MiB; unpack it first");
  const Environment nowhere("TMPDIR", (folder / "nowhere").c_str());
  expect_said(refusal([&] { unpacked_file(folder / "t.gz", 1 << 30); }),
              "t.gz: there is no room to unpack the file: No such file or directory");
  const Environment somewhere("TMPDIR", folder.path().c_str());  // as it says
  EXPECT_EQ(refusal([&] { unpacked_file(folder / "t.gz", 1 << 30); }), "accepted");
}

// --- TFRecord ---

std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

std::string field(const std::string& bytes, char number = 1) {
  std::string size;
  for (uint64_t rest = bytes.size(); size.empty() || rest > 0; rest >>= 7) size += static_cast<char>((rest & 127) | (rest > 127 ? 128 : 0));
  return static_cast<char>(number << 3 | 2) + size + bytes;
}

std::string masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return little((crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

std::string record(const std::string& content) {
  const std::string size = little(content.size(), 8);
  return size + masked(size) + content + masked(content);
}

// A feature "x" of one whole number.
std::string feature(const std::string& name) { return field(field(name, 1) + field(field(field(std::string(1, '\5'), 1), 3), 2)); }

std::string said_of(const std::string& bytes) {
  return refusal([&] {
    const auto file = open_columnar_content("input", "", as_bytes(bytes));
    const size_t first[] = {0};
    if (file != nullptr) file->read(0, first);
  });
}

TEST(TableRefusals, OfTfRecords) {
  const std::string example = field(feature("x"));
  EXPECT_EQ(said_of(record(example)), "accepted");
  expect_said(said_of(record(example) + record("no protobuf at all")), "a record is no tf.train.Example");
  std::string many;
  for (int i = 0; i < 5000; ++i) many += feature(std::to_string(i));
  expect_said(said_of(record(field(many))), "the records have too many fields");
}

}  // namespace
}  // namespace perigee::tables
