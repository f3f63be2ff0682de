// Steps that search along lines, in jobs: the losses of SciPy's path on a whole data set, mini-batches, checkpoints, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "cluster/launch/cluster_job.h"
#include "src/model/model_reader.h"
#include "src/optim/tensor_optimizer.h"
#include "src/run/session.h"
#include "src/train/device/host_only.h"
#include "src/train/line_steps.h"
#include "tests/optim/minimizer_reference.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// The logistic regression of tests/optim/minimizer_reference.py: a layer without a bias, and labels of 0 and 1.
std::string logistic_data() {
  std::string x, y;
  for (int n = 0; n < 60; ++n) {
    x += n ? ",[" : "[";
    double first = 0;
    for (int i = 0; i < 5; ++i) {
      const double value = std::sin(1.7 * n + 0.9 * i * (n % 7));
      if (i == 0) first = value;
      x += (i ? "," : "") + Json(value).dump();
    }
    x += "]";
    y += std::string(n ? "," : "") + (std::sin(n) + 0.3 * first > 0 ? "[1]" : "[0]");
  }
  return R"({"type": "arrays", "x": [)" + x + R"(], "y": [)" + y + "]}";
}

Job logistic(const std::string& optimizer, const std::string& more = "", int batch = 60) {
  return Job(
      Json::parse(
          R"({"name": "lines", "network": [{"type": "dense", "out": 1, "bias": false, "weight_init": "zeros"}], "loss": "binary_cross_entropy",
    "precision": "float64", "regularization": {"l2": 0.01}, "epochs": 12, "optimizer": )" +
              optimizer + R"(, "data": {"batch": )" + std::to_string(batch) + R"(, "shuffle": false, "train": )" + logistic_data() + "}" +
              more + "}",
          "job"),
      "job");
}

void expect_path(const std::string& optimizer, std::span<const reference::PathPoint> path, int threads) {
  Trainer trainer(logistic(optimizer), {.threads = threads, .measure = false});
  int64_t evaluations = 0;
  for (size_t i = 0; i < std::min<size_t>(path.size(), 10); ++i) {
    const StepReport report = trainer.step();
    evaluations += report.evaluations;
    EXPECT_EQ(evaluations, path[i].evaluations) << optimizer << " " << i;
    EXPECT_NEAR(report.loss, i == 0 ? std::log(2.0) : report.loss, 1e-12);
  }
  const Params& params = std::as_const(trainer).model().params();
  double value = 0;
  const std::span<const double> w = params.values<double>();
  for (int n = 0; n < 60; ++n) {
    double z = 0, first = std::sin(1.7 * n);
    for (int i = 0; i < 5; ++i) z += w[static_cast<size_t>(i)] * std::sin(1.7 * n + 0.9 * i * (n % 7));
    const double y = std::sin(n) + 0.3 * first > 0 ? 1 : -1;
    value += std::log1p(std::exp(-y * z)) / 60;
  }
  for (int i = 0; i < 5; ++i) value += 0.005 * w[static_cast<size_t>(i)] * w[static_cast<size_t>(i)];
  EXPECT_NEAR(value, path[std::min<size_t>(path.size(), 10) - 1].value, 1e-6) << optimizer;
}

TEST(LineSteps, OnAWholeDataSetTakeThePathOfSciPy) {
  for (const int threads : {1, 2}) {
    expect_path(R"({"type": "lbfgs"})", reference::kLbfgsLogistic, threads);
    expect_path(R"({"type": "cg"})", reference::kCgLogistic, threads);
  }
}

TEST(LineSteps, OnBatchesMakeTheLossSmaller) {
  for (const char* rule :
       {R"({"type": "lbfgs", "history": 4})", R"({"type": "cg"})", R"({"type": "lbfgs", "line_search": "backtracking"})"}) {
    Trainer trainer(logistic(rule, "", 20), {.threads = 1, .measure = false});
    double first = 0, last = 0;
    for (int i = 0; i < 12; ++i) {
      const StepReport report = trainer.step();
      (i < 3 ? first : last) += i < 3 || i >= 9 ? report.loss : 0;
      EXPECT_GE(report.evaluations, 2) << "the function is another one in each step";
    }
    EXPECT_LT(last, first - 0.1) << rule;
  }
}

TEST(LineSteps, GoOnFromACheckpointWithTheSameBits) {
  char name[] = "/tmp/perigee-lines-XXXXXX";
  const fs::path folder = mkdtemp(name);
  const auto run = [&](const Job& job, const std::string& out, const std::string& resume = "") {
    SessionOptions options{.trainer = {.threads = 1, .measure = false}};
    if (resume.empty()) options.out = (folder / out).string();
    options.resume = resume;
    Session session(job, options);
    const std::atomic<bool> never{false};
    session.run(never);
    return read_safetensors((folder / out / "model.safetensors").string());
  };
  for (const char* rule : {R"({"type": "lbfgs", "history": 3})", R"({"type": "cg"})"})
    for (const int batch : {60, 20}) {
      const std::string label = std::to_string(batch) + Json::parse(rule, "rule").find("type")->as_string();
      const Safetensors whole = run(logistic(rule, "", batch), label + "whole");
      run(logistic(rule, R"(, "steps": 5)", batch), label + "parts");
      const Safetensors parts = run(logistic(rule, "", batch), label + "parts", (folder / (label + "parts")).string());
      const Tensor *a = whole.find("dense1.weight"), *b = parts.find("dense1.weight");
      ASSERT_TRUE(a && b);
      EXPECT_EQ(std::memcmp(a->view().data, b->view().data, a->bytes()), 0) << label;
    }
  fs::remove_all(folder);
}

TEST(LineSteps, SayWhatCannotGoWithThem) {
  const auto refusal = [](const std::string& more) {
    try {
      const Trainer trainer(logistic(R"({"type": "lbfgs"})", more), {.threads = 1, .measure = false});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(""), "accepted");
  EXPECT_NE(refusal(R"(, "clip": {"type": "norm", "threshold": 1})").find("changes steps, which a line search chooses by the loss"),
            std::string::npos);
  EXPECT_NE(refusal(R"(, "lr_scale": {"dense1.*": 0.1})").find("changes steps"), std::string::npos);
}

std::string refused(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LineSteps, AreMadeOnACpuByGradientsOfAll) {
  const TrainerOptions options{.threads = 1, .measure = false};
  const Job job = logistic(R"({"type": "lbfgs"})");
  EXPECT_EQ(refused([&] { ClusterJob(job, options); }), "accepted");  // gradients are added up
  const Job averaged = logistic(R"({"type": "lbfgs"})", R"(, "averaging": {"type": "periodic", "every": 5})");
  EXPECT_NE(refused([&] { ClusterJob(averaged, options); }).find("'lbfgs' searches along lines, and so adds up gradients and losses"),
            std::string::npos);
  TrainingSetup training(job, options);
  const std::unique_ptr<StepEngine> engine = make_engine(training);
  EXPECT_NE(refused([&] { LineSteps::of(training, *engine, false); }).find("searches along lines, for steps of one loss on one batch"),
            std::string::npos);
  training.scale.emplace();
  EXPECT_NE(refused([&] { LineSteps::of(training, *engine, true); }).find("has a loss scale, which a line search would follow"),
            std::string::npos);
  training.options.backend = Backend::cuda;
  EXPECT_NE(refused([&] { LineSteps::of(training, *engine, true); }).find("computes no line searches on a GPU"), std::string::npos);
}

// Tensors of scripts have a gradient and no loss to ask for.
TEST(LineSteps, NeedALoss) {
  const Array like{nullptr, contiguous_view(nullptr, Dtype::f32, Shape{3})};
  const auto make = [&] { TensorOptimizer(Json("lbfgs"), {ParamWindow{.name = "w"}}, {&like, 1}, "step"); };
  EXPECT_NE(refused(make).find("searches along lines: it asks for the loss again and again"), std::string::npos) << refused(make);
}

TEST(OwnRules, StayOnTheHost) {
  const auto make = [] { refuse_own_rule("job"); };
  EXPECT_NE(refused(make).find("is a rule of one's own, which the threads of a host make"), std::string::npos);
  EXPECT_NE(refused([] { refuse_lookahead("job"); }).find("keeps slow weights, which the threads of a host do"), std::string::npos);
}

TEST(OwnRules, KeepTheirStatesWhileTheRunTrains) {
  const auto rule = [](const char* state) {
    return OptimizerOptions{.optimizer = Json::parse(std::string(R"({"type": "rule", "state": {")") + state +
                                                         R"(": 0}, "program": [], "outputs": {"parameter": "gradient"}})",
                                                     "rule")};
  };
  Optimizer optimizer(rule("m"), {ParamWindow{.name = "w", .elements = 3, .shape = Shape{3}}}, "job");
  EXPECT_EQ(refused([&] { optimizer.change(rule("m"), "job"); }), "accepted");
  EXPECT_NE(refused([&] { optimizer.change(rule("v"), "job"); }).find("another rule has other states"), std::string::npos);
}

}  // namespace
}  // namespace perigee
