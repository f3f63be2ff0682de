// Steps on time series against pandas (resample, merge_asof, shift; its results stand here), and sequences as fields.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/data/source.h"
#include "src/data/table/examples/prepared.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

constexpr double kNone = -999;  // stands for a missing value
constexpr const char* kTable =
    "key,when,v,n\na,2020-01-01 00:10:00,1,1\na,2020-01-01 00:50:00,3,2\na,2020-01-01 03:05:00,10,3\na,2020-01-01 02:20:00,6,4\n"
    "b,2020-01-01 00:30:00,7,5\nb,2020-01-01 01:40:00,9,6\n";

Frame stepped(const std::string& table, const std::string& steps, const std::string& folder = ".") {
  Frame frame = TableFile("table", {}, table).all();
  Steps(Json::parse(steps, "test"), "steps", folder).run(frame);
  return frame;
}

std::vector<double> column_numbers(const Frame& frame, const std::string& name) {
  const Column& column = frame.columns[frame.schema.at(name, "test")];
  std::vector<double> values;
  for (int64_t r = 0; r < frame.rows; ++r) values.push_back(column.is_missing(r) ? kNone : column.number(r));
  return values;
}

using List = std::vector<double>;

// pandas' ewm(alpha = 0.3).mean() and ewm(span = 3).mean() of 1, none, 3, 10, 4.5.
TEST(TimeSeries, SmoothsAsPandas) {
  const std::string table = "key,v\na,1\na,\na,3\nb,10\nb,4.5\n";
  const auto near = [](const List& got, const List& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  };
  near(column_numbers(stepped(table, R"([{"smooth":"v","alpha":0.3}])"), "v"),
       {1, 1, 2.3422818791946307, 6.0905531081742526, 5.43603143903543});
  near(column_numbers(stepped(table, R"([{"smooth":["v"],"span":3}])"), "v"), {1, 1, 2.6, 7.153846153846154, 5.689655172413793});
  const Frame beside = stepped(table, R"([{"sequence":"key"},{"smooth":"v","alpha":0.3,"new":true}])");
  near(column_numbers(beside, "smooth(v)"), {1, 1, 2.3422818791946307, 10, 6.764705882352941});
  EXPECT_EQ(column_numbers(beside, "v"), (List{1, kNone, 3, 10, 4.5}));
  near(column_numbers(stepped("v,w\n,1\n2,1\n5,1\n", R"([{"smooth":"v","alpha":0.5}])"), "v"), {kNone, 2, 4});
  EXPECT_HAS(refusal([&] { stepped(table, R"([{"smooth":"v"}])"); }), "'alpha' or 'span' is needed, and not both");
  EXPECT_HAS(refusal([&] { stepped(table, R"([{"smooth":"v","alpha":0}])"); }), "'alpha' gives the newest row no share");
  EXPECT_HAS(refusal([&] { stepped(table, R"([{"smooth":"v","span":0.5}])"); }), "'span' gives the newest row no share");
}

TEST(TimeSeries, ResamplesAsPandas) {
  const std::string by_key = R"([{"sequence":"key","by":"when"},{"resample":"when","every":"1 hour","ops":{"n":"sum"},"mask":"there")";
  Frame frame = stepped(kTable, by_key + "}]");
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 4, 6}));
  EXPECT_EQ(column_numbers(frame, "v"), (List{2, kNone, 6, 10, 7, 9}));
  EXPECT_EQ(column_numbers(frame, "n"), (List{3, kNone, 4, 3, 5, 6}));
  EXPECT_EQ(column_numbers(frame, "there"), (List{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(cell_text(frame.columns[0], frame.schema.columns[0], 1), "a") << "a key is that of the rows before";
  EXPECT_EQ(cell_text(frame.columns[1], frame.schema.columns[1], 1), "2020-01-01T01:00:00");
  EXPECT_EQ(column_numbers(stepped(kTable, by_key + R"(,"fill":"linear"}])"), "v"), (List{2, 4, 6, 10, 7, 9}));
  EXPECT_EQ(column_numbers(stepped(kTable, by_key + R"(,"fill":"previous"}])"), "v"), (List{2, 2, 6, 10, 7, 9}));
  // Without sequences the whole table is one.
  EXPECT_EQ(column_numbers(stepped(kTable, R"([{"resample":"when","every":"2 hours","op":"max","shift":"30 minutes"}])"), "v"),
            (List{1, 9, 10}));
  EXPECT_NE(refusal([] { stepped("t,v\n2020-01-01,1\n2120-01-01,2\n", R"([{"resample":"t","every":"1 ms"}])"); }).find("too many rows"),
            std::string::npos);
  EXPECT_NE(refusal([] { stepped(kTable, R"([{"resample":"when","every":"1 hour","ops":{"v":"averge"}}])"); }).find("names no aggregate"),
            std::string::npos);
}

TEST(TimeSeries, AlignsAsPandas) {
  const TemporaryFolder folder;
  write_file(folder / "q.csv",
             as_bytes("key,when,q\na,2020-01-01 02:00:00,2\na,2020-01-01 00:00:00,1\nb,2020-01-01 01:00:00,3\nb,2020-01-01 01:45:00,4\n"));
  const auto aligned = [&](const std::string& more) {
    return column_numbers(stepped(kTable, R"([{"align":"q.csv","on":"key","by":"when")" + more + "}]", folder.path()), "q");
  };
  EXPECT_EQ(aligned(""), (List{1, 1, 2, 2, kNone, 3}));
  EXPECT_EQ(aligned(R"(,"match":"next")"), (List{2, 2, kNone, kNone, 3, 4}));
  EXPECT_EQ(aligned(R"(,"match":"nearest")"), (List{1, 1, 2, 2, 3, 4}));
  EXPECT_EQ(aligned(R"(,"within":"30 minutes")"), (List{1, kNone, kNone, 2, kNone, kNone}));
}

TEST(TimeSeries, LagsAsPandas) {
  const std::string by_key = R"([{"sequence":"key"},{"lags":"v","by":)";
  Frame frame = stepped(kTable, by_key + "[1,-1]}]");
  EXPECT_EQ(column_numbers(frame, "v(t-1)"), (List{kNone, 1, 3, 10, kNone, 7}));
  EXPECT_EQ(column_numbers(frame, "v(t+1)"), (List{3, 10, 6, kNone, 9, kNone}));
  frame = stepped(kTable, by_key + R"([1,-1],"edge":"trim"}])");
  EXPECT_EQ(column_numbers(frame, "v"), (List{3, 10}));
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 2})) << "one that has no row left is gone";
  EXPECT_EQ(column_numbers(stepped(kTable, R"([{"lags":"v","by":2}])"), "v(t-2)"), (List{kNone, kNone, 1, 3, 10, 6}));
  EXPECT_NE(refusal([&] { stepped(kTable, by_key + "[0]}]"); }).find("rows before (1 or more) or after (-1 or less)"), std::string::npos);
}

TEST(TimeSeries, HasSeasons) {
  const Frame frame = stepped("t,v\n2020-01-01,1\n2020-07-02,1\n2021-07-02 12:00:00,1\n2020-01-06 12:00:00,1\n1969-12-29,1\n",
                              R"([{"seasonal":"t","period":["year","week"],"harmonics":2}])");
  const auto near = [&](const std::string& name, const List& wanted) {
    const List found = column_numbers(frame, name);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << name << "[" << i << "]";
  };
  const double monday = 2 * M_PI * 0.5 / 7;
  near("sin(year,1)", {0, 0, 0});
  near("cos(year,1)", {1, -1, -1});
  near("cos(year,2)", {1, 1, 1});
  near("sin(week,1)", {std::sin(2 * M_PI * 2 / 7), std::sin(2 * M_PI * 3 / 7), std::sin(2 * M_PI * 4.5 / 7), std::sin(monday), 0});
  near("cos(week,2)", {std::cos(4 * M_PI * 2 / 7), std::cos(4 * M_PI * 3 / 7), std::cos(4 * M_PI * 4.5 / 7), std::cos(2 * monday), 1});
}

TEST(TimeSeries, IsCutByTime) {
  const auto part = [](const std::string& more) {
    return column_numbers(stepped(kTable, R"([{"by_time":"when","parts":[0.5,0.5],)" + more + "}]"), "n");
  };
  EXPECT_EQ(part(R"("part":0)"), (List{1, 2, 5}));
  EXPECT_EQ(part(R"("part":1)"), (List{3, 4, 6}));
  EXPECT_EQ(part(R"("part":1,"before":1)"), (List{2, 3, 4, 6})) << "the last row before them comes too";
  // In each sequence; rows of one time are never on both sides.
  const std::string keyed = R"([{"sequence":"key","by":"when"},{"by_time":"when","parts":[0.5,0.5],"part":1,"before":1}])";
  Frame frame = stepped(kTable, keyed);
  EXPECT_EQ(column_numbers(frame, "n"), (List{2, 4, 3, 5, 6}));
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 3, 5}));
  const std::string equal = "t,v\n1,1\n2,2\n2,3\n2,4\n3,5\n";
  EXPECT_EQ(column_numbers(stepped(equal, R"([{"by_time":"t","parts":[0.5,0.5],"part":0}])"), "v"), (List{1}));
  EXPECT_EQ(column_numbers(stepped(equal, R"([{"by_time":"t","parts":[0.5,0.5],"part":1}])"), "v"), (List{2, 3, 4, 5}));
  EXPECT_NE(refusal([&] { stepped(equal, R"([{"by_time":"t","parts":[],"part":0}])"); }).find("must list the shares"), std::string::npos);
  EXPECT_NE(refusal([&] { stepped(equal, R"([{"by_time":"t","parts":[2],"part":0}])"); }).find("has a share that is none"),
            std::string::npos);
  EXPECT_NE(
      refusal([&] { stepped(equal, R"([{"by_time":"t","parts":[0.9,0.9],"part":0}])"); }).find("has shares that are more than the whole"),
      std::string::npos);
}

TEST(TimeSeries, MovesAsRowByRow) {
  std::string table = "v\n";
  for (int i = 0; i < 5000; ++i) table += std::to_string(i * 37 % 101) + ".25\n";
  const List moved = column_numbers(stepped(table, R"([{"moving":"v","rows":10,"new":"m"}])"), "m");
  const List strict = column_numbers(stepped(table, R"([{"moving":"v","rows":10,"new":"m","edge":"missing"}])"), "m");
  for (size_t r = 0; r < moved.size(); ++r) {
    double sum = 0;
    const size_t from = r < 9 ? 0 : r - 9;
    for (size_t i = from; i <= r; ++i) sum += static_cast<double>(i * 37 % 101) + 0.25;
    ASSERT_EQ(moved[r], sum / static_cast<double>(r - from + 1)) << r;
    ASSERT_EQ(strict[r], r < 9 ? kNone : moved[r]) << r;
  }
}

TEST(TimeSeries, Slides) {
  Frame frame = stepped(kTable, R"([{"sequence":"key"},{"slide":2}])");
  EXPECT_EQ(column_numbers(frame, "n"), (List{1, 2, 2, 3, 3, 4, 5, 6}));
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 2, 4, 6, 8}));
  frame = stepped(kTable, R"([{"slide":4,"every":3,"partial":true}])");
  EXPECT_EQ(column_numbers(frame, "n"), (List{1, 2, 3, 4, 4, 5, 6}));
}

std::vector<float> floats(const DataSource& source, int64_t index, size_t field, std::vector<int64_t>* whole = nullptr) {
  std::vector<std::vector<std::byte>> values;
  std::vector<std::byte*> slots;
  for (const Field& each : source.fields()) values.emplace_back(static_cast<size_t>(each.shape.elements()) * dtype_bytes(each.dtype));
  for (auto& each : values) slots.push_back(each.data());
  source.read({.index = index}, slots);
  std::vector<float> found(values[field].size() / 4);
  std::memcpy(found.data(), values[field].data(), values[field].size());
  if (whole != nullptr) whole->resize(values[field].size() / 8), std::memcpy(whole->data(), values[field].data(), values[field].size());
  return found;
}

TEST(Sequences, BecomeFieldsWithLengths) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes("id,colour,v,kind\n1,red,1,x\n1,blue,2,x\n1,red,3,y\n2,blue,4,y\n2,blue,5,y\n"));
  const std::string base = R"({"type":"table","file":"t.csv","steps":[{"sequence":"id"}],"drop":["id"],"target":"kind")";
  const SourcePtr source = open_json(Json::parse(base + "}", "test"), folder.path());
  ASSERT_EQ(source->size(), 2);
  ASSERT_EQ(source->fields().size(), 3u);
  EXPECT_EQ(source->fields()[0].shape, Shape({3, 3})) << "blue, red, v; three steps";
  EXPECT_EQ(source->fields()[1].role, FieldRole::length);
  EXPECT_EQ(source->fields()[1].of, "x");
  EXPECT_EQ(source->fields()[2].class_names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(floats(*source, 0, 0), (std::vector<float>{0, 1, 0, 1, 0, 1, 1, 2, 3}));
  EXPECT_EQ(floats(*source, 1, 0), (std::vector<float>{1, 1, 0, 0, 0, 0, 4, 5, 0}));
  std::vector<int64_t> whole;
  floats(*source, 1, 1, &whole);
  EXPECT_EQ(whole, (std::vector<int64_t>{2}));
  floats(*source, 0, 2, &whole);
  EXPECT_EQ(whole, (std::vector<int64_t>{1})) << "the last row's class";
  const SourcePtr each = open_json(Json::parse(base + R"(,"target_steps":"each"})", "test"), folder.path());
  floats(*each, 1, 2, &whole);
  EXPECT_EQ(whole, (std::vector<int64_t>{1, 1, -1})) << "what is padding counts for nothing";
  // Another file by what was fitted: the same columns, whatever it has.
  write_file(folder / "u.csv", as_bytes("v,kind,id,colour\n8,x,7,green\n9,x,7,red\n"));
  Json other = Json::parse(base + "}", "test");
  other.set("file", "u.csv");
  const SourcePtr test = open_json(with_fitted(other, source->traits().fitted), folder.path());
  EXPECT_EQ(floats(*test, 0, 0), (std::vector<float>{0, 0, 0, 0, 1, 0, 8, 9, 0}));
  write_file(folder / "u.csv", as_bytes("v,kind,id,colour\n8,z,7,green\n"));
  EXPECT_NE(refusal([&] {
              floats(*open_json(with_fitted(other, source->traits().fitted), folder.path()), 0, 2);
            }).find("the class is none of the training data; got 'z'"),
            std::string::npos);
  write_file(folder / "u.csv", as_bytes("v,kind,id,colour\n8,,7,green\n"));
  EXPECT_NE(refusal([&] {
              open_json(with_fitted(other, source->traits().fitted), folder.path());
            }).find("the steps leave no sequence that can be used"),
            std::string::npos);
  write_file(folder / "u.csv", as_bytes("v,kind,id,colour\n1,x,7,red\n1,x,7,red\n1,x,7,red\n1,x,7,red\n"));
  EXPECT_NE(refusal([&] {
              open_json(with_fitted(other, source->traits().fitted), folder.path());
            }).find("another length than those of the training data"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              open_json(Json::parse(R"({"type":"table","file":"t.csv","targets":["v"]})", "test"), folder.path());
            }).find("the steps make none"),
            std::string::npos);
}

// One sequence of 100,000 rows, and as many of one row, which would all be filled up to its length.
TEST(Sequences, HaveABound) {
  const TemporaryFolder folder;
  std::string text = "id,v,w\n";
  for (int i = 0; i < 200'000; ++i) text += (i < 100'000 ? "0" : std::to_string(i)) + ",1,2\n";
  write_file(folder / "t.csv", as_bytes(text));
  const auto said = [&](const std::string& steps) {
    return refusal([&] {
      open_json(Json::parse(R"({"type":"table","file":"t.csv","steps":[)" + steps + R"(],"features":["v","w"],"targets":["v"]})", "test"),
                folder.path());
    });
  };
  EXPECT_NE(said(R"({"sequence":"id"})").find("the sequences are too large; got 100001 of 2 x 100000 numbers; a step {\"slide\": N}"),
            std::string::npos)
      << said(R"({"sequence":"id"})");
  EXPECT_NE(
      said(R"({"slide":1000})").find("the step makes too many rows; expected at most 100 million; a larger 'every', or shorter windows"),
      std::string::npos);
}

TEST(Sequences, RecordsAreReadByWhatWasFitted) {
  const Json json = Json::parse(R"({"type":"table","file":"t.csv"})", "test");
  EXPECT_EQ(refusal([&] { prepared_records(Config(json, "test", ErrorKind::data), Table{}, TableUse::records); }),
            "test: 'fitted' is needed to read records");
}

TEST(Sequences, HaveHorizons) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes("v\n1\n2\n3\n4\n5\n6\n"));
  const Json json = Json::parse(
      R"-({"type":"table","file":"t.csv","steps":[{"lags":"v","by":[-1,-2]},{"slide":2}],"targets":["v(t+1)","v(t+2)"]})-", "test");
  const SourcePtr source = open_json(json, folder.path());
  ASSERT_EQ(source->size(), 3) << "windows whose targets are not known are left out";
  ASSERT_EQ(source->fields().size(), 2u) << "all have one length";
  EXPECT_EQ(floats(*source, 1, 0), (std::vector<float>{2, 3}));
  EXPECT_EQ(floats(*source, 1, 1), (std::vector<float>{4, 5}));
  // To predict, the last windows count too.
  Json fitted = json;
  fitted.set("fitted", source->traits().fitted);
  const SourcePtr records = prepared_text(Config(fitted, "test", ErrorKind::data), "v\n7\n8\n9\n", "new", TableUse::records);
  ASSERT_EQ(records->size(), 2);
  EXPECT_EQ(floats(*records, 1, 0), (std::vector<float>{8, 9}));
  std::vector<int64_t> whole;
  floats(*records, 1, 1, &whole);
  EXPECT_EQ(whole, (std::vector<int64_t>{2})) << "the answer is that of its last row";
}

}  // namespace
}  // namespace perigee::tables
