// The parts of pages: axes, text from outside, details of evaluations that were made in slices.
#include <gtest/gtest.h>

#include <cmath>

#include "src/io/base64.h"
#include "src/io/plot/axis.h"
#include "src/model/evaluator.h"
#include "src/model/shown_example.h"
#include "src/report/html.h"
#include "src/report/page.h"
#include "src/run/run_folder.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

std::vector<double> with_first(double first, int rest, double from, double to) {
  std::vector<double> values = {first};
  for (int i = 0; i < rest; ++i) values.push_back(from + (to - from) * i / (rest - 1));
  return values;
}

TEST(Axis, OneValueFarOutDoesNotFlattenTheOthers) {
  Axis axis(100, 0);
  axis.fit(with_first(58514, 99, 3000, 2500), AxisScale::fitted);
  EXPECT_FALSE(axis.is_log());
  EXPECT_EQ(axis.outside(), 1u);
  EXPECT_LE(axis.high(), 4000);
  EXPECT_GE(axis.low(), 2000);
  EXPECT_LE(axis.low(), 2500);
  EXPECT_GE(axis.pixel(2500) - axis.pixel(3000), 30) << "the body takes a third of the axis or more";
  EXPECT_EQ(axis.note(), "1 of 100 values lies outside, the greatest is 58514");
  axis.fit(with_first(58514, 99, 3000, 2500), AxisScale::linear);
  EXPECT_EQ(axis.high(), 58514);
  EXPECT_EQ(axis.note(), "");
}

TEST(Axis, IsLogarithmicBeyondTwoDecades) {
  Axis axis(300, 0);
  std::vector<double> values;
  for (int i = 0; i <= 300; ++i) values.push_back(std::pow(10, -i / 100.));
  axis.fit(values, AxisScale::fitted);
  EXPECT_TRUE(axis.is_log());
  EXPECT_EQ(axis.note(), "log axis");
  EXPECT_NEAR(axis.pixel(.1), 100, 1e-9);
  EXPECT_TRUE(std::isnan(axis.pixel(-1)));
  const std::vector<double> ticks = axis.ticks();
  ASSERT_EQ(ticks.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(ticks[i], std::pow(10, static_cast<double>(i) - 3), 1e-12);
  axis.fit({1, 99}, AxisScale::fitted);
  EXPECT_FALSE(axis.is_log());
  values.push_back(-1);
  axis.fit(values, AxisScale::fitted);
  EXPECT_FALSE(axis.is_log()) << "a negative value has no logarithm";
}

TEST(Axis, SurvivesStrangeValues) {
  for (const auto& values : {std::vector<double>{}, {NAN}, {5}, {INFINITY, -INFINITY}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 7}})
    for (const AxisScale scale : {AxisScale::linear, AxisScale::log, AxisScale::fitted}) {
      Axis axis(10, 0);
      axis.fit(values, scale);
      EXPECT_LT(axis.low(), axis.high());
      EXPECT_FALSE(axis.ticks().empty());
      EXPECT_TRUE(std::isfinite(axis.pixel((axis.low() + axis.high()) / 2)));
    }
}

TEST(Axis, LinesAreCutWhereTheyLeave) {
  const AxisPoints cut = cut_lines({{0, 5}, {1, 15}, {2, 5}, {3, -5}, {4, 5}}, 0, 10);
  std::vector<std::pair<double, double>> places;
  for (const auto& point : cut)
    if (std::isfinite(point.second)) places.push_back(point);
  EXPECT_EQ(places, (AxisPoints{{0, 5}, {.5, 10}, {1.5, 10}, {2, 5}, {2.5, 0}, {3.5, 0}, {4, 5}}));
}

TEST(Html, TextFromOutsideStaysText) {
  EXPECT_EQ(escaped("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
  EXPECT_EQ(escaped(std::string("a\0b\xff\xc3\xa4", 6)), "a\uFFFDb\uFFFD\xc3\xa4");
  HtmlTable table("<caption>", {{"head"}, {"n", true}});
  table.row({"a", {"1", "h2"}});
  EXPECT_NE(table.html().find("<caption>&lt;caption&gt;</caption>"), std::string::npos);
  EXPECT_NE(table.html().find("<th scope=\"row\">a</th><td class=\"n h2\">1</td>"), std::string::npos);
}

TEST(Html, NumbersForPeople) {
  EXPECT_EQ(grouped_number(1234567), "1,234,567");
  EXPECT_EQ(grouped_number(-1000), "\u22121,000");
  EXPECT_EQ(plain_number(0.046765), "0.04677");
  EXPECT_EQ(plain_number(NAN), "\u2013");
  EXPECT_EQ(seconds_text(200), "3 min 20 s");
  EXPECT_EQ(bytes_number(2756672), "2.6 MiB");
}

TEST(Report, HasTheAreasOfEveryEvaluation) {
  const Json result = Json::parse(R"({"examples": 3, "roc": {"auc": 0.75, "classes": [{"name": "cat", "auc": 0.7, "average_precision": 0.6},
    {"name": "dog", "auc": 0.8, "average_precision": null}]}})",
                                  "report");
  const std::string text = report_text(result);
  EXPECT_NE(text.find("roc.auc                 0.750000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("class   ROC AUC  average precision\ncat      0.7000             0.6000\ndog      0.8000                  -\n"),
            std::string::npos)
      << text;
}

TEST(Report, NumbersColumnsWhoseNamesDoNotFit) {
  Json classes = Json::array(), matrix = Json::array();
  for (int i = 0; i < 12; ++i) {
    classes.push(Json(Json::Object{{"name", "a long name " + std::to_string(i)}, {"examples", 1}}));
    Json row = Json::array();
    for (int j = 0; j < 12; ++j) row.push(i == j ? 1 : 0);
    matrix.push(std::move(row));
  }
  const std::string text = report_text(Json(Json::Object{{"classes", classes}, {"confusion", matrix}}));
  EXPECT_NE(text.find("   0   1   2"), std::string::npos) << text;
  EXPECT_NE(text.find("\n 0 a long name 0    1   .   ."), std::string::npos) << text;
  EXPECT_NE(text.find("\n11 a long name 11   .   ."), std::string::npos) << text;
}

// RFC 4648, section 10.
TEST(Base64, TheVectorsOfTheStandard) {
  for (const auto& [plain, text] :
       {std::pair{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}})
    EXPECT_EQ(base64(plain), text);
}

TEST(ShownExample, ARowIsToldAsItWasInTheTable) {
  const Json fitted = Json::parse(R"({"type": "map", "transforms": [{"mean": [10, 0.5, 0.5], "std": [2, 0.5, 0]}, null], "source":
    {"type": "csv", "columns": [{"name": "age", "mean": 10}, {"name": "city", "categories": ["Oslo", "Rome"]}]}})",
                                  "fitted");
  EXPECT_EQ(table_row(fitted, std::vector<float>{1.5f, -1, 0.5f}).dump(), R"({"age":13.0,"city":"Rome"})");
  EXPECT_TRUE(table_row(fitted, std::vector<float>{1, 2}).is_null());
  EXPECT_TRUE(table_row(Json(), std::vector<float>{1}).is_null());
}

TEST(EvaluationDetails, SlicesInAnyOrderGiveThoseOfTheWhole) {
  Trainer trainer(tiny_job(), {.threads = 1});
  for (int i = 0; i < 5; ++i) trainer.step();
  Evaluator& evaluator = *trainer.evaluator("train");
  EXPECT_TRUE(evaluator.details().is_null());
  evaluator.keep_details();
  evaluator.run();
  const Json whole = evaluator.details();
  std::vector<Json> states;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{70, -1}, {0, 33}, {33, 70}})
    states.push_back(Json::parse(evaluator.state(begin, end).dump(), "state"));
  const Json merged = merged_details(evaluator.task(), evaluator.source().size(), states);
  ASSERT_TRUE(merged.is_object());
  EXPECT_EQ(*merged.find("roc"), *whole.find("roc"));
  ASSERT_EQ(whole.find("worst")->as_array().size(), EvaluationDetails::kWorst);
  const auto &mine = whole.find("worst")->as_array(), &theirs = merged.find("worst")->as_array();
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(*mine[i].find("example"), *theirs[i].find("example"));
    if (i > 0) EXPECT_GE(mine[i - 1].find("loss")->as_number(), mine[i].find("loss")->as_number());
  }
  EXPECT_NEAR(whole.find("calibration")->find("ece")->as_number(), merged.find("calibration")->find("ece")->as_number(), 1e-12);
  EXPECT_THROW(
      merged_details(evaluator.task(), 100, std::vector{Json::parse(R"({"link": "softmax", "details": {"samples": 3}})", "state")}), Error);
}

// They would count each example once. The page says so, also where there are but validation data, whose figures stand beside the details.
TEST(EvaluationDetails, AreNotKeptWhereExamplesCountDifferently) {
  const Job job(Json::parse(R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "data": {"batch": 2,
    "weights": "w", "train": {"type": "arrays", "x": [[1, 2], [3, 4], [5, 6], [7, 8]], "y": [0, 1, 0, 1], "w": [1, 2, 0, 1]}}})",
                            "job"),
                "job");
  Trainer trainer(job, {.threads = 1});
  Evaluator& evaluator = *trainer.evaluator("train");
  evaluator.keep_details();
  const Json figures = evaluator.run();
  EXPECT_EQ(evaluator.details().dump(), R"({"weighted":true})");
  std::vector<Json> states;
  for (const int64_t begin : {0, 2}) states.push_back(Json::parse(evaluator.state(begin, begin + 2).dump(), "state"));
  EXPECT_EQ(merged_details(evaluator.task(), 4, states).dump(), R"({"weighted":true})");

  RunFiles run;
  run.details = Json(Json::Object{{"evaluation", Json(Json::Object{{"weighted", true}, {"report", figures}})}});
  const std::string page = run_page(run);
  size_t said = 0;
  for (size_t at = page.find("make examples count differently here"); at != std::string::npos;
       at = page.find("make examples count", at + 1))
    ++said;
  EXPECT_EQ(said, 3u) << "ROC, calibration, the worst examples";
  EXPECT_EQ(page.find("so nothing was evaluated"), std::string::npos);
}

}  // namespace
}  // namespace perigee
