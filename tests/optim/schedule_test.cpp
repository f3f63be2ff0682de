#include "src/optim/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/optim/reference_values.h"

namespace perigee {
namespace {

Schedule parsed(const char* text) { return Schedule(Json::parse(text, "test"), "test"); }

double at(const char* text, double progress, double epoch = 0, int64_t step = 0) {
  return parsed(text).at({.progress = progress, .epoch = epoch, .step = step});
}

std::string schedule_error(const char* text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, EveryKindReadsItsExampleAndStaysFinite) {
  ASSERT_GE(all_schedules().size(), 13u);
  for (const ScheduleDef* def : all_schedules()) {
    SCOPED_TRACE(def->name);
    const Json example = Json::parse(def->example, def->name);
    EXPECT_EQ(example.find("type")->as_string(), def->name);
    const Schedule schedule(example, "example");
    for (int i = 0; i <= 40; ++i) {
      const double value = schedule.at({.progress = i / 40.0, .epoch = i / 4.0, .step = i});
      EXPECT_TRUE(std::isfinite(value) && value >= 0) << "at " << i << ": " << value;
    }
    Json wrong = example;
    wrong.set("gama", 1);
    EXPECT_THROW(Schedule(wrong, "example"), Error);
  }
}

TEST(Schedule, CurvesAreThoseOfPyTorch) {
  for (const reference::LrCurve& curve : reference::kCurves) {
    SCOPED_TRACE(curve.schedule);
    for (size_t i = 0; i < curve.rates.size(); ++i) {
      const double progress = static_cast<double>(i) / curve.steps;
      EXPECT_NEAR(at(curve.schedule, progress, progress, static_cast<int64_t>(i)), curve.rates[i], 1e-9) << "step " << i;
    }
  }
}

TEST(Schedule, NumberIsFixed) {
  EXPECT_TRUE(parsed("0.25").fixed());
  EXPECT_EQ(parsed("0.25").at({.progress = 0.7}), 0.25);
}

TEST(Schedule, WarmsUpThenFalls) {
  const char* text = R"({"type": "cosine", "from": 2.0, "to": 0, "warmup": 0.1})";
  EXPECT_DOUBLE_EQ(at(text, 0), 0);
  EXPECT_DOUBLE_EQ(at(text, 0.05), 1);
  EXPECT_DOUBLE_EQ(at(text, 0.1), 2);
  EXPECT_NEAR(at(text, 0.55), 1, 1e-12);
  EXPECT_NEAR(at(text, 1), 0, 1e-12);
}

TEST(Schedule, NestedOnesSeeTheirOwnProgress) {
  const char* sequence = R"({"type": "sequence", "parts": [{"until": 0.2, "schedule": {"type": "linear", "from": 0, "to": 1}},
                             {"schedule": {"type": "linear", "from": 1, "to": 0}}]})";
  EXPECT_DOUBLE_EQ(at(sequence, 0.1), 0.5);
  EXPECT_NEAR(at(sequence, 0.6), 0.5, 1e-12);
  EXPECT_NEAR(at(sequence, 1), 0, 1e-12);
  EXPECT_DOUBLE_EQ(at(R"({"type": "ramp", "length": 0.5, "schedule": 4})", 0.25), 2);
  EXPECT_DOUBLE_EQ(at(R"({"type": "ramp", "length": 0.5, "schedule": 4})", 0.75), 4);
}

TEST(Schedule, FollowsEpochsOrSteps) {
  const char* map = R"({"type": "map", "values": {"0": 1, "10": 0.25, "2": 0.5}})";
  EXPECT_EQ(at(map, 0, 1.99), 1);
  EXPECT_EQ(at(map, 0, 2.0), 0.5);
  EXPECT_EQ(at(map, 0, 50), 0.25);
  EXPECT_DOUBLE_EQ(at(R"({"type": "inverse", "from": 8, "gamma": 1, "power": 2, "by": "step"})", 0, 0, 1), 2);
  EXPECT_DOUBLE_EQ(at(R"({"type": "sigmoid", "from": 8, "center": 3, "by": "step"})", 0, 0, 3), 4);
}

TEST(Schedule, RestartsBeginAtTheirExactStep) {
  // Cycle n of factor 3 begins at (3^n - 1) / 2; the top is halved each time.
  const char* text = R"({"type": "restarts", "from": 8, "factor": 3, "decay": 0.5, "by": "step"})";
  double top = 8;
  for (const int64_t begin : {0, 1, 4, 13, 40, 121, 364, 1093, 3280}) {
    EXPECT_DOUBLE_EQ(at(text, 0, 0, begin), top) << begin;
    if (begin > 1) {
      EXPECT_LT(at(text, 0, 0, begin - 1), top) << begin;
    }
    top /= 2;
  }
  EXPECT_DOUBLE_EQ(at(R"({"type": "scaled", "factor": 0.5, "schedule": {"type": "linear", "from": 4}})", 0.25), 1.5);
}

TEST(Schedule, CycleRisesFallsAndAnneals) {
  const char* text = R"({"type": "cycle", "from": 1, "max": 3, "length": 10, "annealing": 2, "annealing_decay": 0.25, "by": "step"})";
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 0), 1);
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 2), 2);
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 4), 3);
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 6), 2);
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 9), 0.5);
  EXPECT_DOUBLE_EQ(at(text, 0, 0, 12), 2);
}

TEST(Schedule, SaysWhatIsWrong) {
  EXPECT_NE(schedule_error(R"({"type": "cosin", "from": 1})").find("'cosine'"), std::string::npos);
  EXPECT_NE(schedule_error(R"({"from": 1})").find("'type'"), std::string::npos);
  EXPECT_NE(schedule_error(R"({"type": "cosine"})").find("'from'"), std::string::npos);
  EXPECT_NE(schedule_error(R"({"type": "map", "values": {"3": 1}})").find("time 0"), std::string::npos);
  EXPECT_NE(schedule_error(R"("fast")").find("this must be a number or a schedule"), std::string::npos);
  EXPECT_NE(
      schedule_error(R"({"type": "sequence", "parts": [{"until": 0.5, "schedule": 1}, {"until": 0.4, "schedule": 1}, {"schedule": 1}]})")
          .find("until"),
      std::string::npos);
}

}  // namespace
}  // namespace perigee
