// Formulas and steps on tables: those that DataVec has not, states, and what is wrong.
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/steps.h"
#include "src/data/table/time_text.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/data/tables/frame_of.h"

namespace perigee::tables {
namespace {

Frame people() {
  Frame frame = empty_frame({.columns = {{.name = "name"},
                                         {.name = "age", .type = Type::integer},
                                         {.name = "hours-per-week", .type = Type::real},
                                         {.name = "born", .type = Type::time}}});
  const auto add = [&](const char* name, const char* age, const char* hours, const char* born) {
    const char* const cells[] = {name, age, hours, born};
    for (size_t c = 0; c < 4; ++c)
      if (*cells[c] == 0) frame.columns[c].add_missing();
      else EXPECT_TRUE(add_parsed(frame.schema.columns[c], cells[c], frame.columns[c]));
    ++frame.rows;
  };
  add("Ada", "36", "40.5", "1815-12-10");
  add("Bob", "", "10", "2000-02-29 23:30:15.250");
  add("Cyd", "52", "", "1969-12-31T23:59:59");
  return frame;
}

std::string computed(const std::string& formula) {
  const Frame frame = people();
  const Column column = Expression(formula, "test").of(frame);
  std::string text;
  for (int64_t r = 0; r < frame.rows; ++r) text += (r ? "|" : "") + cell_text(column, {}, r);
  return text;
}

TEST(TableExpression, ComputesAndKeepsWhatIsMissing) {
  EXPECT_EQ(computed("age * 2 + 1"), "73||105");
  EXPECT_EQ(computed("2 + 3 * 4 ^ 2 - -1"), "51|51|51");
  EXPECT_EQ(computed("age / 8"), "4.5||6.5");
  EXPECT_EQ(computed("`hours-per-week` > 20 and age > 30"), "true|false|");
  EXPECT_EQ(computed("age > 40 or name = 'Bob'"), "false|true|true") << "missing or true is true";
  EXPECT_EQ(computed("not (age in (36, 40))"), "false||true");
  EXPECT_EQ(computed("coalesce(age, 0)"), "36|0|52");
  EXPECT_EQ(computed("if(is_missing(age), 'none', text(age))"), "36|none|52");
  EXPECT_EQ(computed("concat('-', upper(name), age)"), "ADA-36||CYD-52");
  EXPECT_EQ(computed("replace(name, '([A-Z])(.)', '$2$1')"), "dAa|oBb|yCd");
  EXPECT_EQ(computed("search(name, '^[AB]')"), "true|true|false");
  EXPECT_EQ(computed("year(born)"), "1815|2000|1969");
  EXPECT_EQ(computed("weekday(born)"), "7|2|3");
  EXPECT_EQ(computed("born + span('1 day')"), "1815-12-11|2000-03-01T23:30:15.250|1970-01-01T23:59:59");
  EXPECT_EQ(computed("born < '1970-01-01'"), "true|false|true");
  EXPECT_EQ(computed("time('31.1.2020', '%d.%m.%Y')"), "2020-01-31|2020-01-31|2020-01-31");
  EXPECT_EQ(computed("time('30.2.2020', '%d.%m.%Y')"), "||");
  EXPECT_EQ(computed("integer('7.0')"), "7|7|7");
  EXPECT_EQ(computed("min(age, 40)"), "36||40");
  EXPECT_EQ(computed("substring(name, 2)"), "da|ob|yd");
}

TEST(TableExpression, SaysWhatIsWrong) {
  const auto said = [](const std::string& formula) { return refusal([&] { computed(formula); }); };
  EXPECT_NE(said("agee + 1").find("did you mean 'age'"), std::string::npos) << said("agee + 1");
  EXPECT_NE(said("lowr(name)").find("did you mean 'lower'"), std::string::npos);
  EXPECT_NE(said("age +").find("ends too early"), std::string::npos);
  EXPECT_NE(said("name + 1").find("wants numbers"), std::string::npos);
  EXPECT_NE(said("age = 'x'").find("not compared"), std::string::npos);
  EXPECT_NE(said("replace(name, '(', '')").find("no regular expression"), std::string::npos);
  EXPECT_NE(said("pow(1)").find("another number of arguments"), std::string::npos);
  EXPECT_NE(said("age * 9223372036854775807").find("no 64-bit integer"), std::string::npos);
  EXPECT_NE(said(std::string(1000, '(') + "1").find("nested too deeply"), std::string::npos);
  EXPECT_NE(said("search('" + std::string(60, 'a') + "!', '(a|aa)+$')").find("cannot be matched"), std::string::npos);
}

TEST(TableTime, ZonesChangeWithTheSeason) {
  const auto offset = [](const char* zone, const char* time) {
    int64_t ms = 0;
    EXPECT_TRUE(parse_iso_time(time, ms));
    return zone_offset_ms(zone, ms, "test") / 3'600'000;
  };
  EXPECT_EQ(offset("+02:00", "2020-01-01"), 2);
  if (!file_exists("/usr/share/zoneinfo/Europe/Rome")) GTEST_SKIP() << "no tz database";
  EXPECT_EQ(offset("Europe/Rome", "2020-01-01"), 1);
  EXPECT_EQ(offset("Europe/Rome", "2020-07-01"), 2);
  EXPECT_NE(refusal([] { zone_offset_ms("Europe/Atlantis", 0, "test"); }).find("no such time zone"), std::string::npos);
}

TEST(TableSteps, StatesGoIntoOtherData) {
  const Json list = Json::parse(
      R"([{"impute": ["age", "hours-per-week"]}, {"copy": {"part": "age"}}, {"bucket": "part", "count": 2}, {"normalize": ["age", "hours-per-week"]}, {"category": "name"}])",
      "steps");
  Frame train = people();
  Steps fitting(list, "steps", ".");
  EXPECT_FALSE(fitting.is_fitted());
  fitting.run(train);
  const Json states = Json::parse(fitting.states().dump(), "states");
  Steps again(list, "steps", ".", states);
  EXPECT_TRUE(again.is_fitted());
  for (int64_t r = 0; r < train.rows; ++r) {
    Frame one = people();
    one.take({r});
    again.apply(one);
    for (size_t c = 0; c < one.columns.size(); ++c)
      EXPECT_EQ(cell_text(one.columns[c], one.schema.columns[c], 0), cell_text(train.columns[c], train.schema.columns[c], r))
          << "as when it was measured";
  }
}

// By two ways: with the numbers that were kept when the data were measured, and looked for again.
TEST(TableSteps, SeveralColumnsBecomeOnesAndZeros) {
  const Json list = Json::parse(R"([{"one_hot": ["city", "kind"]}])", "steps");
  const auto rows = [] {
    return frame_of({.columns = {{.name = "city"}, {.name = "n", .type = Type::integer}, {.name = "kind"}}},
                    Json::parse(R"([["Rome", 1, "b"], ["Oslo", 2, "a"], [null, 3, "b"], ["Rome", 4, null], ["Lima", 5, "c"]])", "rows"));
  };
  Frame train = rows(), later = rows();
  Steps fitting(list, "steps", ".");
  fitting.run(train);
  Steps(list, "steps", ".", fitting.states()).apply(later);
  EXPECT_EQ(train.schema.names(),
            (std::vector<std::string>{"city[Lima]", "city[Oslo]", "city[Rome]", "n", "kind[a]", "kind[b]", "kind[c]"}));
  ASSERT_EQ(later.columns.size(), train.columns.size());
  for (size_t c = 0; c < train.columns.size(); ++c)
    EXPECT_EQ(train.columns[c].whole, later.columns[c].whole) << train.schema.columns[c].name;
  EXPECT_EQ(train.columns[2].whole, (std::vector<int64_t>{1, 0, 0, 1, 0}));
  EXPECT_EQ(train.columns[5].whole, (std::vector<int64_t>{1, 0, 1, 0, 0}));
  Frame twice = rows();
  EXPECT_NE(
      refusal([&] { Steps(Json::parse(R"([{"one_hot": ["city", "city"]}])", "s"), "s", ".").run(twice); }).find("there is no such column"),
      std::string::npos);
}

TEST(TableSteps, ElementsBecomeRows) {
  const auto run = [](const char* steps) {
    Frame frame = frame_of({.columns = {{.name = "id", .type = Type::integer}, {.name = "tags"}}},
                           Json::parse(R"([[1, "a,b"], [1, "c"], [2, null], [2, "d,,e"]])", "rows"));
    Steps(Json::parse(steps, "steps"), "steps", ".").run(frame);
    std::string text;
    for (int64_t r = 0; r < frame.rows; ++r)
      text += cell_text(frame.columns[0], {}, r) + (frame.columns[1].is_missing(r) ? "-" : cell_text(frame.columns[1], {}, r)) + " ";
    for (const int64_t end : frame.sequences) text += "|" + std::to_string(end);
    return text;
  };
  EXPECT_EQ(run(R"([{"explode": "tags"}])"), "1a 1b 1c 2- 2d 2 2e ");
  EXPECT_EQ(run(R"([{"explode": "tags", "by": ",,"}])"), "1a,b 1c 2- 2d 2e ");
  EXPECT_EQ(run(R"([{"sequence": "id"}, {"explode": "tags"}])"), "1a 1b 1c 2- 2d 2 2e |0|3|7");
  EXPECT_EQ(run(R"([{"list": "tags", "words": ["a", "b", "c", "d"], "as": "indices"}, {"explode": "tags"}])"), "10 11 12 2- 23 ");
  EXPECT_NE(refusal([&] { run(R"([{"explode": "id"}])"); }).find("has a type that this step does not take"), std::string::npos);
  EXPECT_NE(refusal([&] { run(R"([{"explode": "tags", "by": ""}])"); }).find("is empty, and then nothing is between two elements"),
            std::string::npos);
  Frame large = frame_of({.columns = {{.name = "text"}, {.name = "tags"}}}, Json::array());
  large.columns[0].add_text(std::string(1 << 20, 'x')), large.columns[1].add_text(std::string(5000, ',')), large.rows = 1;
  EXPECT_NE(refusal([&] {
              Steps(Json::parse(R"([{"explode": "tags"}])", "s"), "s", ".").run(large);
            }).find("the elements repeat too much of the other columns"),
            std::string::npos);
}

TEST(TableSteps, SplitEqually) {
  Frame frame = empty_frame({.columns = {{.name = "x", .type = Type::integer}}});
  for (int i = 0; i < 100; ++i) frame.columns[0].add_whole(i);
  frame.rows = 100;
  Steps(Json::parse(R"([{"split": "", "length": 30, "equal": true}])", "steps"), "steps", ".").run(frame);
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 25, 50, 75, 100})) << "DataVec makes 25 of them";
}

TEST(TableSteps, SayWhatIsWrong) {
  const auto said = [](const std::string& list) {
    return refusal([&] {
      Frame frame = people();
      Steps(Json::parse(list, "steps"), "steps", ".").run(frame);
    });
  };
  EXPECT_NE(said(R"([{"filtr": "age > 1"}])").find("did you mean 'filter'"), std::string::npos) << said(R"([{"filtr": "age > 1"}])");
  EXPECT_NE(said(R"([{"filter": "age"}])").find("no condition"), std::string::npos);
  EXPECT_NE(said(R"([{"drop": "nmae"}])").find("did you mean 'name'"), std::string::npos);
  EXPECT_NE(said(R"([{"normalize": "name"}])").find("does not take"), std::string::npos);
  EXPECT_NE(said(R"([{"normalize": "age", "bye": "range"}])").find("'bye'"), std::string::npos);
  EXPECT_NE(said(R"([{"rename": {"name": "age"}}])").find("two columns get one name"), std::string::npos);
  EXPECT_NE(said(R"([{"group": "age", "mean": "name"}])").find("has no mean"), std::string::npos);
  EXPECT_NE(said(R"([{"windows": "born", "size": "1 day"}])").find("goes back"), std::string::npos);
  EXPECT_NE(said(R"([{"windows": "born", "size": "1 dya"}])").find("no span of time"), std::string::npos);
  EXPECT_NE(said(R"([{"category": "name", "categories": ["Ada"], "other": "error"}])").find("none of the categories"), std::string::npos);
  EXPECT_NE(said(R"([{"impute": "age", "value": "x"}])").find("does not fit"), std::string::npos);
}

}  // namespace
}  // namespace perigee::tables
