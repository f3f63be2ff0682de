// A pass over a data source, whole and in slices.
#include "src/model/evaluator.h"

#include <gtest/gtest.h>

#include "tests/core/refusal.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Job judged_job() { return tiny_job(R"(, "metrics": ["classification", "roc", "calibration"])"); }

TEST(Evaluator, SlicesInAnyOrderGiveTheReportOfTheWhole) {
  Trainer trainer(judged_job(), {.threads = 1});
  for (int i = 0; i < 5; ++i) trainer.step();
  Evaluator& evaluator = *trainer.evaluator("train");
  Json whole = evaluator.run();
  std::vector<Json> states;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{70, -1}, {0, 33}, {33, 34}, {34, 70}, {70, 70}})
    states.push_back(Json::parse(evaluator.state(begin, end).dump(), "state"));  // as it comes out of a socket
  const Json* metrics = trainer.job().json().find("metrics");
  Json merged = evaluation_report(*metrics, evaluator.task(), evaluator.source().traits().description, states, "job");
  EXPECT_NEAR(whole.find("loss")->as_number(), merged.find("loss")->as_number(), 1e-12);
  EXPECT_EQ(*whole.find("examples"), Json(100));
  whole.erase("loss");
  merged.erase("loss");
  EXPECT_EQ(whole.find("confusion") != nullptr, merged.find("confusion") != nullptr);
  EXPECT_EQ(*whole.find("accuracy"), *merged.find("accuracy"));
  EXPECT_EQ(*whole.find("roc"), *merged.find("roc"));
  EXPECT_EQ(whole.as_object().size(), merged.as_object().size());
}

TEST(Evaluator, RefusesAStateOfOtherMetrics) {
  Trainer trainer(judged_job(), {.threads = 1});
  Evaluator& evaluator = *trainer.evaluator("train");
  const std::vector<Json> states = {evaluator.state(0, 10)};
  const auto report = [&](const Json& metrics) { return evaluation_report(metrics, evaluator.task(), "data", states, "job"); };
  EXPECT_HAS(refusal(ErrorKind::data, [&] { report(Json("classification")); }), "'evaluations' does not fit the job's metrics; got [{");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { report(Json("classification")); }), "expected 1 states, from a worker with the same job");
  EXPECT_THROW(report(Json(Json::Array{"roc", "roc", "roc"})), Error);
  for (const char* damaged : {"{}", "[]", "3", R"({"examples": -1, "loss": 0, "evaluations": [{}, {}, {}]})"}) {
    const std::vector<Json> bad = {Json::parse(damaged, "state")};
    EXPECT_THROW(evaluation_report(*trainer.job().json().find("metrics"), evaluator.task(), "data", bad, "job"), Error) << damaged;
  }
}

TEST(Evaluator, ThereIsNoneForAPartWithoutData) {
  Trainer trainer(tiny_job(), {.threads = 1});
  EXPECT_EQ(trainer.evaluator("test"), nullptr);
}

}  // namespace
}  // namespace perigee
