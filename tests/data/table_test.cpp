// Tables: columns by name, what is missing, what is unknown; records of JSON read as rows of a file are.
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

// Two numbers and a city of two, fitted; the target is a price.
const char* const kFitted = R"({"type": "csv", "columns": [{"name": "age", "mean": 3}, {"name": "city", "categories": ["Oslo", "Rome"]},
  {"name": "size", "mean": 50}], "target": {"name": "price", "mean": 1}})";

struct Options {
  Json json;
  Config config;
  explicit Options(const std::string& text) : json(Json::parse(text, "test")), config(json, "test", ErrorKind::data) {}
};

std::string with_fit(const std::string& more = "") { return R"({"type": "csv", "fitted": )" + std::string(kFitted) + more + "}"; }

SourcePtr from_csv(const std::string& text, TableUse use, const std::string& options = with_fit()) {
  const Options given(options);
  return table_source(given.config, csv_table(text, nullptr, "t.csv", csv_format(given.config)), use);
}

SourcePtr from_json(const std::string& text, const std::string& options = with_fit()) {
  const Options given(options);
  return table_source(given.config, json_table(json_records(text, "r"), "r"), TableUse::records);
}

std::vector<float> row(const DataSource& source, int64_t index) {
  std::vector<float> x(static_cast<size_t>(source.fields()[0].shape.elements()));
  int64_t other = -1;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&other)};
  source.read({.index = index}, std::span(slots, source.fields().size()));
  if (source.fields().size() > 1 && source.fields()[1].name == kRowField) x.push_back(static_cast<float>(other));
  return x;
}

const std::vector<float> kExpected = {7, 0, 1, 80, 0};  // age, Oslo, Rome, size, row

TEST(Table, FindsColumnsByNameInAnyOrder) {
  EXPECT_EQ(row(*from_csv("age,city,size,price\n7,Rome,80,9\n", TableUse::records), 0), kExpected);
  EXPECT_EQ(row(*from_csv("size,id,city,age\n80,x17,Rome,7\n", TableUse::records), 0), kExpected)
      << "without the target, with another column";
  EXPECT_EQ(from_csv("price,size,city,age\n9,80,Rome,7\n", TableUse::examples)->fields()[1].name, "y");
}

TEST(Table, RecordsAreRows) {
  EXPECT_EQ(row(*from_json(R"({"size": 80, "city": "Rome", "age": 7, "more": true})"), 0), kExpected);
  const SourcePtr list = from_json(R"([{"age": 1, "city": "Oslo", "size": 2.5}, {"size": 80, "city": "Rome", "age": 7}])");
  EXPECT_EQ(row(*list, 1), (std::vector<float>{7, 0, 1, 80, 1}));
  EXPECT_EQ(row(*from_json("{\"age\": 1, \"city\": \"Oslo\", \"size\": 2}\n\n{\"size\": 80, \"city\": \"Rome\", \"age\": 7}\n"), 1)[0], 7)
      << "JSON Lines";
  EXPECT_EQ(row(*from_json(R"({"age": [1, 7], "city": ["Oslo", "Rome"], "size": [2, 80]})"), 1)[3], 80) << "columns";
  EXPECT_EQ(row(*from_json(R"({"age": null, "city": "Rome", "size": 80})", with_fit(R"(, "missing": "mean")")), 0)[0], 3);
}

TEST(Table, NamesAllMissingColumnsAtOnce) {
  const std::string message = refusal(ErrorKind::data, [] { from_csv("siez,price\n80,9\n", TableUse::records); });
  EXPECT_HAS(message, "3 columns are missing: 'age', 'city', 'size'");
  EXPECT_HAS(message, "'siez', 'price'");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_csv("age,city,size\n7,Rome,80\n", TableUse::examples); }), "the column 'price' is missing");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_csv("age;city;size\n7;Rome;80\n", TableUse::records); }), "separated by ';'");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_csv("7,Rome,80\n8,Oslo,70\n", TableUse::records); }), "no header line");
  const SourcePtr list = from_json(R"([{"age": 1, "city": "Oslo", "size": 2}, {"age": 1, "citty": "Oslo"}])");
  EXPECT_HAS(bad_rows(list->traits().remarks).at(0).message, "r: record 2: the record lacks 'city', 'size'");
}

TEST(Table, SaysWhatIsEmptyOrBroken) {
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_csv("age,city,size\n", TableUse::records); }),
             "t.csv: the table has a header line and no rows");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json(" \n"); }), "there are no records");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json("[]"); }), "there are no records");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json("{\"age\": 1}\n{\"age\": }\n"); }), "r:2");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json(R"({"age": {"years": 7}, "city": "Rome", "size": 1})"); }), "r: record 1: 'age'");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json(R"({"age": "old", "city": "Rome", "size": 1})"); }),
             "record 1: column 'age': this is no number");
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_json("7"); }), "these are no records");
}

TEST(Table, CountsUnknownCategoriesByColumn) {
  const SourcePtr source =
      from_csv("age,city,size\n7,Berlin,80\n7,,80\n7,Paris,80\n7,Rome,80\n", TableUse::records, with_fit(R"(, "missing": "mean")"));
  EXPECT_EQ(row(*source, 0), (std::vector<float>{7, 0, 0, 80, 0}));
  Json sum;
  add_remarks(sum, source->traits().remarks);
  add_remarks(sum, source->traits().remarks);
  const std::vector<std::string> lines = remark_lines(sum);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_HAS(lines[0], "column 'city': 4 values are not among the categories of the training data, such as 'Berlin'");
  EXPECT_TRUE(remark_lines(from_csv("age,city,size\n7,Rome,80\n", TableUse::records)->traits().remarks).empty());
}

TEST(Table, RowsForAnswersThatCannotBeReadAreLeftOut) {
  const SourcePtr source = from_csv("age,city,size\nold,Rome,80\n7,Rome,80\n8,Oslo,much\n9,Rome,70\n", TableUse::records);
  EXPECT_EQ(source->size(), 2);
  const std::vector<BadRow> bad = bad_rows(source->traits().remarks);
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].row, 0);
  EXPECT_EQ(bad[0].before, 0);
  EXPECT_HAS(bad[0].message, ":2: column 'age': this is no number; got 'old', expected a number");
  EXPECT_EQ(bad[1].row, 2);
  EXPECT_EQ(bad[1].before, 1);
  EXPECT_TRUE(remark_lines(source->traits().remarks).empty()) << "they are told one by one";
  EXPECT_HAS(refusal(ErrorKind::data, [] { from_csv("age,city,size\nold,Rome,80\n", TableUse::records); }), "this is no number");
}

TEST(Table, WarnsOfWordsAmongNumbers) {
  const auto warnings_of = [](const std::string& options, const std::string& odd) {
    std::string text = "area,price\n", told;
    for (int i = 0; i < 20; ++i) text += (i == 7 ? odd : std::to_string(i) + ".5") + "," + std::to_string(i) + ".25\n";
    const WarningHandler before = set_warning_handler([&](const std::string& warning) { told += warning; });
    from_csv(text, TableUse::examples, R"({"type": "csv", "target": "price")" + options + "}");
    set_warning_handler(before);
    return told;
  };
  EXPECT_EQ(warnings_of("", "7.5"), "");
  EXPECT_HAS(warnings_of("", "n/a"), "t.csv:9: column 'area' is taken as categories: 1 of its 20 values is no number, 'n/a'");
  EXPECT_EQ(warnings_of(R"(, "categorical": ["area"])", "n/a"), "");
  EXPECT_EQ(warnings_of(R"(, "missing": "mean", "missing_values": ["n/a"])", "n/a"), "") << "the advice works";
}

TEST(Table, CountsRowsWithoutATarget) {
  const SourcePtr source =
      from_csv("age,city,size,price\n7,Oslo,1,\n?,Oslo,1,2\n7,Rome,80,3\n", TableUse::examples, with_fit(R"(, "missing": "mean")"));
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(line_of_targets(source->traits().remarks), "1 of 3 rows have no target and are left out");
  EXPECT_EQ(remark_lines(source->traits().remarks), std::vector{line_of_targets(source->traits().remarks)});
}

TEST(Table, KeepsTheRowsOfWhatIsLeft) {
  const SourcePtr source =
      from_csv("age,city,size\n7,Oslo,1\n?,Oslo,1\n7,Rome,80\n", TableUse::records, with_fit(R"(, "missing": "skip")"));
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(row(*source, 1), (std::vector<float>{7, 0, 1, 80, 2}));
  EXPECT_HAS(remark_lines(source->traits().remarks).at(0), "1 of 3 rows have missing values");
}

TEST(Table, WithoutNamesColumnsGoByPosition) {
  const std::string fitted =
      R"({"type": "csv", "fitted": {"columns": [{"name": "c1", "mean": 0}, {"name": "c2", "mean": 0}], "target": {"name": "c0"}}})";
  EXPECT_EQ(row(*from_csv("5,6,7\n", TableUse::records, fitted), 0), (std::vector<float>{6, 7, 0})) << "as in the training table";
  EXPECT_EQ(row(*from_csv("6,7\n", TableUse::records, fitted), 0), (std::vector<float>{6, 7, 0})) << "just what the network reads";
  EXPECT_HAS(refusal(ErrorKind::data, [&] { from_csv("6\n", TableUse::records, fitted); }), "2 columns are missing: 'c1', 'c2'");
}

}  // namespace
}  // namespace perigee
