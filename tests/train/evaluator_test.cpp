// A pass over a data source, whole and in slices.
#include "src/model/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

// A class and a number, which are judged apart: 12 examples, the second loss counts twice.
Job two_headed_job() {
  std::string x, kind, value;
  for (int i = 0; i < 12; ++i) {
    const char* const comma = i ? ", " : "";
    x += comma + ("[" + std::to_string(i % 5) + ", " + std::to_string(i % 3) + "]");
    kind += comma + std::to_string(i % 3), value += comma + ("[" + std::to_string(i) + ".5]");
  }
  return Job(Json::parse(R"({"network": {"type": "graph", "inputs": ["x"], "outputs": ["value", "kind"], "nodes": [
      {"name": "h", "layer": {"type": "dense", "out": 4, "activation": "tanh"}, "inputs": ["x"]},
      {"name": "value", "layer": {"type": "dense", "out": 1}, "inputs": ["h"]},
      {"name": "kind", "layer": {"type": "dense", "out": 3}, "inputs": ["h"]}]},
    "loss": {"kind": {"type": "cross_entropy", "target": "k"}, "value": {"type": "mse", "target": "v", "weight": 2}}, "optimizer": "adam",
    "seed": 3, "data": {"batch": 4, "train": {"type": "arrays", "x": [)" +
                             x + R"(], "k": [)" + kind + R"(], "v": [)" + value + "]}}}",
                         "job"),
             "job");
}

TEST(Evaluator, JudgesEachOfSeveralOutputs) {
  Trainer trainer(two_headed_job(), {.threads = 2});
  for (int i = 0; i < 3; ++i) trainer.step();
  Evaluator& evaluator = *trainer.evaluator("train");
  const Json whole = evaluator.run();
  const Json *kind = whole.find("kind"), *value = whole.find("value");
  ASSERT_TRUE(kind && value) << whole.dump();
  const auto of = [](const Json* figures, const char* name) { return figures->find(name)->as_number(); };
  EXPECT_NEAR(of(&whole, "loss"), of(kind, "loss") + 2 * of(value, "loss"), 1e-5);
  EXPECT_NEAR(of(value, "loss"), of(value, "mse"), 1e-5) << "the loss is the mean square, which the evaluation finds by itself";
  // By hand, from what the network gives.
  const Json job = trainer.job().json();
  double square = 0;
  int64_t right = 0;
  {
    Inference inference(trainer.model(), trainer.team(), false, 12, {}, {trainer.shape().outputs()[1]});
    const Json& rows = *job.find("data")->find("train")->find("x");
    std::vector<float> x;
    for (const Json& row : rows.as_array())
      for (const Json& number : row.as_array()) x.push_back(static_cast<float>(number.as_number()));
    const Inference::Result& got = inference.run({reinterpret_cast<const std::byte*>(x.data())}, 12);
    const std::string main = trainer.shape().outputs()[0].name;
    const Tensor& values = main == "value" ? got.output : got.more[0];
    const Tensor& kinds = main == "value" ? got.more[0] : got.output;
    for (int64_t i = 0; i < 12; ++i) {
      square += std::pow(values.data<float>()[i] - (static_cast<double>(i) + 0.5), 2) / 12;
      const float* const p = kinds.data<float>() + 3 * i;
      right += std::max_element(p, p + 3) - p == i % 3;
    }
  }
  EXPECT_NEAR(of(value, "mse"), square, 1e-4);
  EXPECT_NEAR(of(&whole, "accuracy"), static_cast<double>(right) / 12, 1e-12) << "the first one's figures are those of the whole";
  const std::vector<std::string> figures = figures_of(Json(), evaluator.task(), "job");
  for (const char* name : {"accuracy", "kind.loss", "value.loss", "value.rmse"})
    EXPECT_NE(std::find(figures.begin(), figures.end(), name), figures.end()) << name << " can be watched";
  std::vector<Json> states;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{5, -1}, {0, 5}})
    states.push_back(Json::parse(evaluator.state(begin, end).dump(), "state"));
  const Json merged = evaluation_report(Json(), evaluator.task(), "data", states, "job");
  EXPECT_NEAR(of(merged.find("value"), "loss"), of(value, "loss"), 1e-6);
  EXPECT_NEAR(of(merged.find("value"), "rmse"), of(value, "rmse"), 1e-6);
  EXPECT_EQ(of(&merged, "accuracy"), of(&whole, "accuracy"));
  states[0].set("heads", Json::array());
  EXPECT_HAS(refusal(ErrorKind::data, [&] { evaluation_report(Json(), evaluator.task(), "data", states, "job"); }),
             "'heads' are not as many as the job's outputs with a loss; got [], expected 2, from a worker with the same job");
}

TEST(Evaluator, ThereIsNoneForAPartWithoutData) {
  Trainer trainer(tiny_job(), {.threads = 1});
  EXPECT_EQ(trainer.evaluator("test"), nullptr);
}

}  // namespace
}  // namespace perigee
