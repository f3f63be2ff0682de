// The parts of pages: axes, text from outside, details of evaluations that were made in slices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <tuple>

#include "src/core/utf8.h"
#include "src/io/base64.h"
#include "src/io/lines.h"
#include "src/io/plot/axis.h"
#include "src/io/plot/short_names.h"
#include "src/model/evaluator.h"
#include "src/model/shown_example.h"
#include "src/report/html.h"
#include "src/report/page.h"
#include "src/run/run_folder.h"
#include "tests/io/temporary.h"
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

// A learning rate that stays as it is.
TEST(Axis, AConstantIsSeenAtItsValue) {
  Axis axis(100, 0);
  axis.fit({.002, .002, .002}, AxisScale::fitted);
  EXPECT_NEAR(axis.low(), .0019, 1e-9);
  EXPECT_NEAR(axis.high(), .0021, 1e-9);
  axis.fit({0, 0}, AxisScale::fitted);
  EXPECT_EQ(axis.low(), -.5);
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

TEST(Axis, IsLogarithmicWhereHalfOfTheValuesWouldLieOnTheBottom) {
  Axis axis(300, 0);
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(900 + 59100 * std::pow(.7, i));
  axis.fit(values, AxisScale::fitted);
  EXPECT_TRUE(axis.is_log()) << "greatest over least is 66: less than two decades";
  values.assign(40, 900);
  for (int i = 0; i < 40; ++i) values[static_cast<size_t>(i)] += 100 * i;
  axis.fit(values, AxisScale::fitted);
  EXPECT_FALSE(axis.is_log());
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

// --- Pages of runs of any size ---

constexpr const char* kHostile = "\"><script>x</script><img src=x onerror='x'>&";

Json list_of(size_t count, const std::function<Json(size_t)>& each) {
  Json list = Json::array();
  for (size_t i = 0; i < count; ++i) list.push(each(i));
  return list;
}

// A run whose lists have `many` members. Its texts have so many letters; 0: they are hostile.
class LargeRun {
 public:
  LargeRun(size_t many, size_t letters) : many_(many), text_(letters > 0 ? std::string(letters, 'x') : kHostile) {
    write("job.json", Json(Json::Object{{"name", text_}, {"network", list_of(many, [&](size_t) { return layer(); })}}));
    write("report.json", report());
    write("details.json", details());
    write_log();
  }
  RunFiles read() const { return read_run_files(folder_.path()); }
  std::string file(const std::string& name) const { return folder_ / name; }
  size_t steps = 0;

 private:
  void write(const std::string& name, const Json& json) { std::ofstream(file(name)) << json.dump(); }

  Json layer() const {
    return Json(
        Json::Object{{"name", text_}, {"type", text_}, {"shape", text_}, {"parameters", 1e6}, {"activation_bytes", 1e6}, {"flops", 1e6}});
  }

  Json report() const {
    const size_t classes = std::min<size_t>(many_, 1000), cells = std::min<size_t>(classes, 40);
    Json report(Json::Object{{"loss", 0.5}, {"accuracy", 0.5}, {"rmse", 1.0}, {"f1", 0.5}});
    report.set("classes", list_of(classes, [&](size_t) {
                 return Json(Json::Object{{"name", text_}, {"precision", 0.5}, {"recall", 0.5}, {"f1", 0.5}, {"examples", 7}});
               }));
    report.set("confusion",
               list_of(cells, [&](size_t) { return list_of(cells, [](size_t j) { return Json(1234567 + static_cast<int64_t>(j)); }); }));
    report.set("columns", list_of(many_, [](size_t) { return Json(Json::Object{{"rmse", 1.0}, {"mae", 1.0}}); }));
    for (size_t i = 0; i < std::min<size_t>(many_, 1000); ++i) report.set(text_ + std::to_string(i), 0.123456789);
    return report;
  }

  Json details() const {
    const auto numbers = [](size_t) { return list_of(1000, [](size_t i) { return Json(0.001 * static_cast<double>(i * 7919 % 1000)); }); };
    const std::string image = "data:image/png;base64," + std::string(16500, 'A');
    Json curve(Json::Object{{"false_positive_rate", numbers(0)}, {"recall", numbers(0)}, {"precision", numbers(0)}});
    const size_t classes = std::min<size_t>(many_, 32);
    Json evaluation(Json::Object{{"roc", Json(Json::Object{{"auc", 0.5}})},
                                 {"calibration", Json(Json::Object{{"ece", 0.1}})},
                                 {"class_names", list_of(std::min<size_t>(many_, 1000), [&](size_t) { return Json(text_); })}});
    evaluation.find("roc")->set("classes", list_of(classes, [&](size_t) {
                                  return Json(Json::Object{{"name", text_}, {"auc", 0.5}, {"average_precision", 0.5}, {"curve", curve}});
                                }));
    evaluation.find("calibration")
        ->set("reliability", list_of(many_, [](size_t i) {
                return Json(Json::Object{{"confidence", 0.5}, {"accuracy", 0.5}, {"examples", static_cast<int64_t>(i)}});
              }));
    evaluation.set("scatter", list_of(500, [&](size_t) {
                     return Json(Json::Object{{"actual", list_of(4, [](size_t i) { return Json(0.1 * static_cast<double>(i)); })},
                                              {"predicted", list_of(4, [](size_t i) { return Json(0.2 * static_cast<double>(i)); })}});
                   }));
    evaluation.set("worst", list_of(std::min<size_t>(many_, 100), [&](size_t i) {
                     return Json(Json::Object{{"example", static_cast<int64_t>(i)},
                                              {"loss", 1.0},
                                              {"actual", static_cast<int64_t>(i % 3)},
                                              {"predicted", 1},
                                              {"probability", 0.5},
                                              {"image", i == 0 ? Json(text_) : Json(image)}});
                   }));
    Json layers(Json::Object{{"parameters", 1e9}, {"layers", list_of(many_, [&](size_t) { return layer(); })}});
    layers.set("inputs", list_of(many_, [&](size_t) { return layer(); }));
    Json environment = Json::object();
    for (size_t i = 0; i < std::min<size_t>(many_, 1000); ++i) environment.set(text_ + std::to_string(i), text_);
    environment.set("started", text_);
    return Json(Json::Object{{"evaluation", evaluation}, {"layers", layers}, {"environment", environment}});
  }

  void write_log() {
    std::ofstream log(file("log.jsonl"));
    Json start(Json::Object{{"event", "start"}, {"epochs_done", 0}});
    for (const char* name : {"script", "data", "version", "device", "data_folder", "resumed_from"}) start.set(name, text_);
    start.set("averaging", Json(Json::Object{{"name", text_}}));
    log << start.dump() << "\n{\"event\":\"step\",\"step\":9,\"los\nnonsense\n[]\n\n";
    steps = 10 * many_;
    for (size_t i = 1; i <= steps; ++i) {
      const double at = 0.1 * static_cast<double>(i), value = 1 + 0.001 * static_cast<double>(i * 7919 % 1000);
      for (const char* kind : {"step", i % 10 == 0 ? "epoch" : ""}) {
        if (!*kind) continue;
        Json event(Json::Object{{"event", kind},
                                {"step", static_cast<int64_t>(i)},
                                {"epoch", static_cast<int64_t>(i / 10)},
                                {"epochs_done", at},
                                {"loss", value},
                                {"accuracy", value / 3},
                                {"learning_rate", value},
                                {"gradient_norm", value},
                                {"seconds", at},
                                {"examples_per_s", value}});
        Json figures(Json::Object{{"loss", value}, {"accuracy", value / 3}, {"a", value}, {"b", value}, {"c", value}});
        figures.set(text_, value);
        if (event.find("event")->as_string() == "epoch") event.set("validation", figures), event.set("test", figures);
        log << event.dump() << "\n";
      }
    }
    for (size_t i = 0; i < many_; ++i) log << Json(Json::Object{{"event", "set"}, {"option", text_}, {"value", text_}}).dump() << "\n";
    log << Json(Json::Object{{"event", text_}, {text_, text_}}).dump() << "\n";
    const Json workers = list_of(std::min<size_t>(many_, 1000), [&](size_t) {
      return Json(Json::Object{{"name", text_}, {"host", text_}, {"state", text_}});
    });
    for (int i = 0; i < 3; ++i) log << Json(Json::Object{{"event", "workers"}, {"workers", workers}}).dump() << "\n";
    Json time = Json::object();
    for (size_t i = 0; i < std::min<size_t>(many_, 200); ++i) time.set(text_ + std::to_string(i) + "_s", 1.0);
    Json end(Json::Object{{"event", "end"}, {"time", time}, {"steps", static_cast<int64_t>(steps)}});
    for (const char* name : {"test_data", "model_of", "model", "checkpoint", "stopped"}) end.set(name, text_);
    log << end.dump() << "\n";
  }

  TemporaryFolder folder_;
  size_t many_;
  std::string text_;
};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Page, NoTextFromOutsideIsMarkup) {
  const LargeRun large(3, 0);
  RunFiles run = large.read();
  const std::string failed = "failed: " + std::string(kHostile);
  std::vector<std::string> pages = {run_page(run), comparison_page(std::vector<RunFiles>{run, LargeRun(2, 0).read()})};
  run.events.push_back(Json(Json::Object{{"event", "error"}, {"text", failed}}));
  pages.push_back(run_page(run));
  for (const std::string& page : pages) {
    EXPECT_EQ(count_of(page, "<script>"), 1u);
    EXPECT_EQ(count_of(page, "<img src=x"), 0u);
    EXPECT_EQ(count_of(page, "onerror='"), 0u);
    EXPECT_GE(count_of(page, "&quot;&gt;&lt;script&gt;x&lt;/script&gt;"), 8u);
  }
}

TEST(Page, IsSmallHoweverLargeTheRunIs) {
  for (const auto& [many, letters, most_left_out] : {std::tuple<size_t, size_t, size_t>{5000, 2000, 5}, {300, 20, 3}}) {
    const LargeRun large(many, letters);
    const std::string page = run_page(large.read());
    EXPECT_LT(page.size(), 500'000u);
    for (const char* id :
         {"summary", "curves", "confusion", "roc", "calibration", "regression", "worst", "layers", "timeline", "job", "environment"})
      EXPECT_EQ(count_of(page, std::string("<section id=\"") + id + "\""), 1u) << id;
    EXPECT_LE(count_of(page, "too large for the page"), most_left_out);
    EXPECT_EQ(count_of(page, "<caption>The last 100 of " + std::to_string(many) + " epochs"), 1u);
    EXPECT_GE(count_of(page, "class=\"line\""), 8u);
  }
}

TEST(RunFiles, OfALongLogAPartIsReadOverItsWholeLength) {
  const LargeRun large(5000, 0);
  const RunFiles run = large.read();
  EXPECT_LE(run.events.size(), 50'000u);
  EXPECT_EQ(run.epochs_left_out, 0u);
  EXPECT_GT(run.others_left_out, 3000u);
  EXPECT_EQ(std::ranges::count_if(run.events, [](const Json& event) { return is_event(event, "workers"); }), 1);
  std::vector<int64_t> steps;
  for (const Json& event : run.events)
    if (is_event(event, "step")) steps.push_back(event.find("step")->as_int());
  ASSERT_GE(steps.size(), 10'000u);
  EXPECT_LE(steps[0], 5);
  EXPECT_EQ(steps.back(), static_cast<int64_t>(large.steps));
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_LE(steps[i] - steps[i - 1], 5);
  EXPECT_TRUE(run.outcome() && is_event(*run.outcome(), "end"));
}

TEST(RunFiles, DamageIsSurvived) {
  const LargeRun large(3, 0);
  const size_t whole = large.read().events.size();
  std::ofstream log(large.file("log.jsonl"), std::ios::app);
  const std::string piece(LineReader::kLongest / 4, '\0');
  for (int i = 0; i < 6; ++i) log << piece;
  log << "\n{\"event\":\"end\",\"steps\":1}" << std::flush;
  for (const char* name : {"job.json", "report.json", "details.json"}) std::ofstream(large.file(name)) << "{\"name\": [";
  const RunFiles run = large.read();
  EXPECT_EQ(run.events.size(), whole + 1) << "the last line counts without its newline";
  EXPECT_GT(run_page(run).size(), 10'000u);
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
    if (i == 0) continue;
    EXPECT_GE(mine[i - 1].find("loss")->as_number(), mine[i].find("loss")->as_number());
  }
  EXPECT_NEAR(whole.find("calibration")->find("ece")->as_number(), merged.find("calibration")->find("ece")->as_number(), 1e-12);
  EXPECT_THROW(
      merged_details(evaluator.task(), 100, std::vector{Json::parse(R"({"link": "softmax", "details": {"samples": 3}})", "state")}), Error);
}

TEST(ShortNames, StayDifferent) {
  const std::string long_name(60, 'a');
  EXPECT_EQ(short_names({"cat", "dog"}, 16), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(short_names({long_name, "dog"}, 16), (std::vector<std::string>{"aaaaaaaaaaaaa...", "dog"}));
  EXPECT_EQ(short_names({long_name + "-red", long_name + "-blue", "b" + long_name}, 16),
            (std::vector<std::string>{"aaaaa...aaaa-red", "aaaaa...aaa-blue", "baaaaaaaaaaaa..."}))
      << "where their beginnings are equal, their ends are shown";
  EXPECT_EQ(short_names({long_name + "x" + long_name, long_name + "y" + long_name}, 16),
            (std::vector<std::string>{"aaaaaaaaaaa...#0", "aaaaaaaaaaa...#1"}));
  EXPECT_EQ(short_names({long_name, long_name}, 16)[1], "aaaaaaaaaaaaa...") << "one and the same name";
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "\u00e4";
  EXPECT_EQ(utf8_width(short_names({umlauts + "x", umlauts + "y"}, 16)[0]), 16u);
  EXPECT_TRUE(short_names({umlauts + "x", umlauts + "y"}, 16)[0].ends_with("\u00e4x"));
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
