// Evaluations against references computed the slow way by metrics_reference.py; merging and storing do not change them.
#include "src/model/evaluation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "src/model/evaluation_details.h"
#include "src/model/metrics/rows.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

Json reference() {
  std::ifstream file(PERIGEE_TEST_FOLDER "/references/metrics_reference.json");
  std::ostringstream text;
  text << file.rdbuf();
  return Json::parse(text.str(), "metrics_reference.json");
}

const Json& at(const Json& json, const char* key) {
  const Json* found = json.find(key);
  if (!found) throw std::runtime_error(std::string("no '") + key + "' in " + json.dump());
  return *found;
}

Tensor table(const Json& rows) {
  const auto& list = rows.as_array();
  std::vector<float> values;
  int64_t columns = 1;
  for (const Json& row : list) {
    if (!row.is_array()) {
      values.push_back(static_cast<float>(row.as_number()));
      continue;
    }
    columns = static_cast<int64_t>(row.as_array().size());
    for (const Json& value : row.as_array()) values.push_back(static_cast<float>(value.as_number()));
  }
  return Tensor::from(Shape({static_cast<int64_t>(list.size()), columns}), values);
}

Tensor labels(const Json& list) {
  std::vector<int64_t> values;
  for (const Json& value : list.as_array()) values.push_back(value.as_int());
  return Tensor::from(Shape({static_cast<int64_t>(values.size())}), values);
}

// Fed whole, fed in three parts that are merged, and sent through JSON: the same figures.
Json judge(const Json& description, const EvaluationTask& task, const Tensor& output, const Tensor& target) {
  auto whole = make_evaluation(description, task, "test");
  whole->add(output, target);
  auto first = make_evaluation(description, task, "test"), second = make_evaluation(description, task, "test");
  const int64_t n = output.shape()[0], third = n / 3;
  first->add(output.rows(0, third), target.rows(0, third));
  second->add(output.rows(third, n), target.rows(third, n), third);  // only the first rows count
  second->add(output.rows(2 * third, n), target.rows(2 * third, n));
  auto sent = make_evaluation(description, task, "test");
  sent->restore(Json::parse(second->state().dump(), "state"));
  first->merge(*sent);
  const Json result = whole->result(), merged = first->result();
  for (const auto& [key, value] : result.as_object()) {
    if (value.is_number()) EXPECT_NEAR(at(merged, key.c_str()).as_number(), value.as_number(), 1e-9) << key;
    else EXPECT_EQ(at(merged, key.c_str()).dump().size() > 0, true);
  }
  return result;
}

void expect_figures(const Json& got, const Json& wanted, const std::vector<std::string>& names) {
  for (const std::string& name : names) EXPECT_NEAR(at(got, name.c_str()).as_number(), at(wanted, name.c_str()).as_number(), 1e-6) << name;
}

TEST(Evaluation, ClassificationMatchesReference) {
  const Json r = reference();
  const Json got =
      judge(Json(Json::Object{{"type", "classification"}, {"top_n", 2}}), {.classes = 4}, table(at(r, "rows")), labels(at(r, "labels")));
  const Json& wanted = at(r, "classification");
  expect_figures(got, wanted, {"accuracy", "precision", "recall", "f1", "mcc"});
  EXPECT_NEAR(at(got, "top2_accuracy").as_number(), at(wanted, "top").as_number(), 1e-9);
  EXPECT_EQ(at(got, "confusion"), at(wanted, "confusion"));
  const Json f2 =
      judge(Json(Json::Object{{"type", "classification"}, {"beta", 2}}), {.classes = 4}, table(at(r, "rows")), labels(at(r, "labels")));
  EXPECT_NEAR(at(f2, "f2").as_number(), at(wanted, "f2").as_number(), 1e-9);
}

TEST(Evaluation, UndefinedFiguresAreNull) {
  const Json r = reference();
  const Json got =
      judge("classification", {.classes = 4, .class_names = {"a", "b", "c", "d"}}, table(at(r, "rows")), labels(at(r, "labels")));
  const Json& never = at(got, "classes").as_array()[3];
  EXPECT_EQ(at(never, "name").as_string(), "d");
  EXPECT_TRUE(at(never, "precision").is_null());
  EXPECT_TRUE(at(make_evaluation("classification", {.classes = 3}, "test")->result(), "accuracy").is_null());
  EXPECT_TRUE(at(make_evaluation("regression", {}, "test")->result(), "r2").is_null());
}

TEST(Evaluation, DistributionsCountByTheirLargestEntry) {
  auto evaluation = make_evaluation("classification", {}, "test");
  evaluation->add(Tensor::from<float>({2, 3}, {.1f, .8f, .1f, .7f, .2f, .1f}), Tensor::from<float>({2, 3}, {0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(at(evaluation->result(), "accuracy").as_number(), 0.5);
}

TEST(Evaluation, CalibrationMatchesReference) {
  const Json r = reference();
  expect_figures(judge("calibration", {.classes = 4}, table(at(r, "rows")), labels(at(r, "labels"))), at(r, "calibration"),
                 {"ece", "mce", "brier", "negative_log_likelihood"});
}

TEST(Evaluation, RocKeepsSoManyScoresAndNoMore) {
  auto evaluation = make_evaluation(Json::parse(R"({"type": "roc", "most": 5})", "test"), {.classes = 2}, "test");
  const Tensor scores = Tensor::from<float>({3, 2}, {.1f, .9f, .8f, .2f, .3f, .7f}), labels = Tensor::from<int64_t>({3}, {1, 0, 1});
  evaluation->add(scores, labels);
  EXPECT_EQ(at(evaluation->result(), "auc").as_number(), 1);
  try {
    evaluation->add(scores, labels);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "roc: there are too many scores to keep them all; got more than 5; set steps = 1000 for counting in bins, or a greater 'most'");
  }
}

TEST(Evaluation, RocMatchesReference) {
  const Json r = reference();
  const Json got = judge("roc", {.classes = 4}, table(at(r, "rows")), labels(at(r, "labels")));
  for (size_t c = 0; c < 3; ++c) expect_figures(at(got, "classes").as_array()[c], at(r, "roc").as_array()[c], {"auc", "average_precision"});
  EXPECT_TRUE(at(at(got, "classes").as_array()[3], "auc").is_null()) << "a class without examples has no curve";
  const Json binary = judge("roc", {.classes = 2}, table(at(r, "binary_scores")), labels(at(r, "binary_labels")));
  expect_figures(binary, at(r, "binary"), {"auc", "average_precision"});
  const Json binned = judge(Json(Json::Object{{"type", "roc"}, {"steps", 1024}}), {.classes = 2}, table(at(r, "binary_scores")),
                            labels(at(r, "binary_labels")));
  expect_figures(binned, at(r, "binary"), {"auc"});
}

TEST(Evaluation, RegressionMatchesReference) {
  const Json r = reference();
  const auto columns = [&](const char* key) {
    const auto& lists = at(r, key).as_array();
    Json rows = Json::array();
    for (size_t i = 0; i < lists[0].as_array().size(); ++i) rows.push(Json(Json::Array{lists[0].as_array()[i], lists[1].as_array()[i]}));
    return table(rows);
  };
  const Json got = judge("regression", {}, columns("predicted"), columns("wanted"));
  for (size_t c = 0; c < 2; ++c)
    expect_figures(at(got, "columns").as_array()[c], at(r, "regression").as_array()[c], {"mse", "mae", "rmse", "rse", "r2", "correlation"});
}

TEST(Evaluation, BinaryCountsEachOutput) {
  const Json got =
      judge("binary", {}, Tensor::from<float>({3, 2}, {.9f, .2f, .6f, .7f, .1f, .4f}), Tensor::from<float>({3, 2}, {1, 0, 0, 1, 0, 1}));
  const auto& outputs = at(got, "outputs").as_array();
  EXPECT_NEAR(at(outputs[0], "precision").as_number(), 0.5, 1e-12);
  EXPECT_NEAR(at(outputs[1], "recall").as_number(), 0.5, 1e-12);
  EXPECT_NEAR(at(got, "accuracy").as_number(), 2.0 / 3, 1e-12);
}

TEST(Evaluation, RefusesLabelsOutOfRange) {
  auto evaluation = make_evaluation("classification", {.classes = 3}, "test");
  try {
    evaluation->add(Tensor::from<float>({1, 3}, {0, 1, 0}), Tensor::from<int64_t>({1}, {3}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("out of range"), std::string::npos);
  }
}

// States come from other processes of a cluster.
TEST(Evaluation, RefusesStatesThatAreNone) {
  struct Wrong {
    const char *description, *state, *error;
  };
  const Wrong all[] = {
      {R"("binary")", R"({"counts": [1, 2, 3]})", "state of the evaluation 'binary': 'counts' must hold 4 numbers per output; got 3"},
      {R"("binary")", R"({"counts": [1, 2, 3, "a"]})", "'counts' must be a list of numbers; got string"},
      {R"("calibration")", R"({"examples": 1, "brier": 0, "likelihood": 0, "bins": [1, 2]})", "'bins' must be a list of 3 numbers per bin"},
      {R"({"type": "calibration", "bins": 2})", R"({"examples": 1, "brier": 0, "likelihood": 0, "bins": [1, 2, 3, 4, 5, "a"]})",
       "'bins' must be a list of numbers; got string"},
      {R"("classification")", R"({"classes": 3, "examples": 1, "within_top": 1, "actual": [1]})",
       "'actual' has the wrong length; got 1, expected 3"},
      {R"("regression")", R"({"columns": [[1, 2]]})", "'columns' must hold lists of 8 numbers; got [1,2]"},
      {R"("regression")", R"({"columns": [[1, 2, 3, 4, 5, 6, 7, "a"]]})", "'columns' must hold lists of 8 numbers; got string"},
      {R"("roc")", R"({"scores": [{"positive": [1]}]})", "'scores' must hold lists of numbers"},
      {R"("roc")", R"({"scores": [{"positive": [1], "negative": ["a"]}]})", "'scores' must hold lists of numbers; got string"},
      {R"({"type": "roc", "steps": 3})", R"({"scores": [{"positive": [1], "negative": [1]}]})",
       "'scores' has another number of bins; got 1, expected 3"},
      {R"("roc")", R"({"scores": [{"positive": [1], "negative": [], "weights": [1, 2]}]})",
       "'scores' has another number of weights; got 2, expected 1"},
  };
  for (const Wrong& wrong : all) {
    const auto evaluation = make_evaluation(Json::parse(wrong.description, "metrics"), {.classes = 2}, "test");
    EXPECT_HAS(refusal(ErrorKind::data, [&] { evaluation->restore(Json::parse(wrong.state, "state")); }), wrong.error);
  }
}

TEST(Evaluation, RefusesDetailsThatAreNone) {
  for (const auto& [state, error] :
       {std::pair{R"({"samples": 3, "worst": []})", "'samples' and 'worst' must be lists"},
        {R"({"samples": [{"draw": 1, "actual": ["a"], "predicted": []}], "worst": []})", "'actual' must be a list of numbers"}}) {
    EvaluationDetails details({.classes = 2}, "", "x", 10);
    EXPECT_HAS(refusal(ErrorKind::data, [&, &state = state] { details.merge(Json::parse(state, "state")); }), error);
  }
}

TEST(Evaluation, UnknownNamesGetTheNearest) {
  try {
    make_evaluation("clasification", {}, "job.json: metrics");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'classification'?"), std::string::npos) << error.what();
  }
  EXPECT_THROW(make_evaluation(Json(Json::Object{{"type", "roc"}, {"step", 3}}), {}, "job.json"), Error);
}

TEST(Evaluation, EveryEvaluationStoresAndMerges) {
  const Tensor output = Tensor::from<float>({4, 2}, {.9f, .1f, .2f, .8f, .6f, .4f, .3f, .7f});
  const Tensor target = Tensor::from<float>({4, 2}, {1, 0, 0, 1, 0, 1, 0, 1});
  for (const EvaluationDef* def : all_evaluations()) {
    if (std::string_view(def->name) == "lambda") continue;     // has no meaning without a function
    if (std::string_view(def->name) == "detection") continue;  // nor this without boxes: detection_test.cpp
    // Those of whole sequences are in sequence_metrics_test.cpp.
    if (!make_evaluation(Json(def->name), {.classes = 2}, "test")->takes_sequences()) judge(def->name, {.classes = 2}, output, target);
  }
}

// The share of outputs that are nearer than 0.35 to the target, as a function of one's own.
const char* const kNear =
    R"({"type": "lambda", "name": "near", "inputs": ["o", "t"], "program": [{"op": "sub", "in": ["o", "t"], "out": "t1"},
  {"op": "abs", "in": ["t1"], "out": "t2"}, {"op": "less", "in": ["t2", 0.35], "out": "t3"}], "outputs": ["t3"]})";

TEST(Evaluation, AFunctionOfOnesOwnIsAFigure) {
  const Tensor output = Tensor::from<float>({4, 1}, {.9f, .2f, .6f, .3f}), target = Tensor::from<float>({4}, {1, 0, 0, 1});
  const Json description = Json::parse(kNear, "near");
  EXPECT_EQ(judge(description, {}, output, target).dump(), R"({"near":0.5})");
  const auto counted = make_evaluation(description, {}, "test");
  counted->add(output, target, 1);  // only the first row
  EXPECT_EQ(counted->result().dump(), R"({"near":1.0})");
  // Class numbers count from 1 in the function.
  const Json classes = Json::parse(R"({"type": "lambda", "name": "mean class", "inputs": ["o", "t"],
    "program": [{"op": "cast", "in": ["t"], "out": "t1", "attrs": {"dtype": "f32"}}], "outputs": ["t1"]})",
                                   "classes");
  EXPECT_EQ(judge(classes, {.classes = 3}, output, Tensor::from<int64_t>({4}, {0, 2, 2, 2})).dump(), R"({"mean class":2.5})");
}

TEST(Evaluation, AFunctionThatGivesNothingForEachExampleIsRefused) {
  const Json whole = Json::parse(R"({"type": "lambda", "inputs": ["o", "t"], "program": [{"op": "reduce_sum", "in": ["o"], "out": "t1"}],
    "outputs": ["t1"]})",
                                 "whole");
  const auto evaluation = make_evaluation(whole, {}, "test: metrics");
  const Tensor output = Tensor::from<float>({4, 1}, {.9f, .2f, .6f, .3f}), target = Tensor::from<float>({4}, {1, 0, 0, 1});
  try {
    evaluation->add(output, target, -1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("one number for the whole batch"), std::string::npos) << error.what();
  }
}

// Figures of scikit-learn 1.7 with sample_weight; the fourth row weighs nothing, and its label is none.
TEST(Evaluation, WeightsAreThoseOfScikitLearn) {
  const std::vector<double> weights = {0.13, 0.35, 0.68, 0.0, 0.39, 0.24, 1.87, 0.62, 0.95, 0.12, 0.55, 0.45};
  const Tensor output = Tensor::from<float>({12, 3}, {.099f, .809f, .092f, .608f, .162f, .23f,  .573f, .288f, .139f, .127f, .052f, .821f,
                                                      .203f, .06f,  .737f, .266f, .443f, .291f, .357f, .313f, .33f,  .33f,  .358f, .312f,
                                                      .541f, .212f, .247f, .492f, .477f, .031f, .017f, .157f, .826f, .631f, .01f,  .359f});
  const Tensor labels = Tensor::from<int64_t>({12}, {0, 1, 2, -1, 1, 1, 1, 0, 2, 2, 2, 1});
  const auto judged = [&](const Json& description, const Tensor& out, const Tensor& target) {
    auto whole = make_evaluation(description, {}, "test"), first = make_evaluation(description, {}, "test");
    auto second = make_evaluation(description, {}, "test"), sent = make_evaluation(description, {}, "test");
    whole->add(out, target, 12, weights);
    first->add(out.rows(0, 5), target.rows(0, 5), 5, weights);
    second->add(out.rows(5, 12), target.rows(5, 12), 7, std::span(weights).subspan(5));
    sent->restore(Json::parse(second->state().dump(), "state"));
    first->merge(*sent);
    const Json result = whole->result(), merged = first->result();
    for (const auto& [key, value] : result.as_object()) {
      if (!value.is_number()) continue;
      EXPECT_NEAR(at(merged, key.c_str()).as_number(), value.as_number(), 1e-9) << key;
    }
    return result;
  };
  const auto expect = [](const Json& got, const char* key, double wanted) { EXPECT_NEAR(at(got, key).as_number(), wanted, 1e-6) << key; };
  const Json classes = judged("classification", output, labels);
  expect(classes, "accuracy", 0.12440944881889764);
  expect(classes, "precision", 0.27584354180098863);
  expect(classes, "recall", 0.10395256916996048);
  expect(classes, "f1", 0.1504647615758727);
  expect(classes, "mcc", -0.17646461882219236);
  EXPECT_NEAR(at(classes, "confusion").as_array()[1].as_array()[0].as_number(), 2.67, 1e-9);
  const Json roc = judged("roc", output, labels);
  const double areas[] = {0.19121428571428564, 0.4909190263288624, 0.2975738056897478},
               averages[] = {0.12410691479656996, 0.6174085548470172, 0.4858895865778927};
  for (size_t c = 0; c < 3; ++c) {
    expect(at(roc, "classes").as_array()[c], "auc", areas[c]);
    expect(at(roc, "classes").as_array()[c], "average_precision", averages[c]);
  }
  expect(judged("calibration", output, labels), "negative_log_likelihood", 1.630614663210575);
  const Tensor a =
      Tensor::from<float>({12, 1}, {-.155f, .558f, -1.522f, -.893f, .624f, -.805f, .212f, .492f, 1.667f, -1.905f, -.52f, -.432f});
  const Tensor b =
      Tensor::from<float>({12, 1}, {-.016f, .693f, -1.979f, -.714f, .356f, -1.282f, 1.06f, .436f, 1.482f, -1.956f, -.747f, -.874f});
  const Json regression = judged("regression", a, b);
  expect(regression, "mse", 0.2723268566929134);
  expect(regression, "mae", 0.42853228346456695);
  expect(regression, "r2", 0.7942442133182522);
  expect(regression, "correlation", 0.8997643020047784);
  const Tensor said = Tensor::from<float>({12, 1}, {.118f, .36f, .698f, .792f, .446f, .971f, .511f, .486f, .053f, .246f, .756f, .627f});
  const Json binary = judged("binary", said, Tensor::from<float>({12, 1}, {1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
  expect(binary, "accuracy", 0.4787401574803149);
  expect(binary, "f1", 0.5037481259370314);
}

// A job checks that tables fit each other; one that does not is not read beyond its end all the same.
TEST(Evaluations, ReadNothingBeyondATable) {
  const Tensor out(Dtype::f32, Shape({3, 2}));
  EXPECT_EQ(Rows(out, Tensor(Dtype::f32, Shape({3, 2})), -1).count, 3);
  for (const Shape& wanted : {Shape({2, 2}), Shape()})
    EXPECT_HAS(refusal(ErrorKind::model, [&] { Rows(out, Tensor(Dtype::f32, wanted), -1); }), "outputs and targets do not fit");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { Rows(out, Tensor(Dtype::f32, Shape({3, 2})), 4); }), "outputs and targets do not fit");
  const Tensor halves(Dtype::bf16, Shape({3, 2}));
  EXPECT_HAS(refusal(ErrorKind::model, [&] { element(halves.view(), 0); }), "outputs and targets must be numbers");
}

}  // namespace
}  // namespace perigee
