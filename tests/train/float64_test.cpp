// Training in float64: the numbers of PyTorch, on any backend and any number of threads, and a model that is evaluated as it was trained.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/train/checkpoint.h"
#include "src/train/evaluator.h"
#include "tests/io/temporary.h"
#include "tests/train/float64_reference.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

using reference::kExamples, reference::kSteps;

double start_value(int64_t tensor, int64_t k) { return static_cast<double>((7 * k + 3 * tensor) % 13 - 6) / 8; }

// The network, data and optimiser of float64_reference.py.
Job reference_job(const std::string& precision) {
  Json x = Json::array(), y = Json::array();
  for (int64_t n = 0; n < kExamples; ++n) {
    Json rows = Json::array();
    for (int64_t row = 0; row < 6; ++row) {
      Json values = Json::array();
      for (int64_t column = 0; column < 6; ++column) values.push(static_cast<double>((5 * n + 3 * (6 * row + column)) % 17 - 8) / 8);
      rows.push(std::move(values));
    }
    x.push(Json(Json::Array{std::move(rows)}));
    y.push(n % 3);
  }
  Json job = Json::parse(R"({"loss": "cross_entropy", "optimizer": {"type": "adamw", "lr": 0.05, "weight_decay": 0.01}, "epochs": 20,
      "network": {"type": "sequential", "layers": [{"type": "conv2d", "out": 2, "kernel": 3, "activation": "tanh"},
        {"type": "maxpool", "kernel": 2}, {"type": "dense", "out": 5, "activation": "sigmoid"}, {"type": "dense", "out": 3}]}})",
                         "job");
  Json source = Json::object();
  source.set("type", "arrays");
  source.set("x", std::move(x));
  source.set("y", std::move(y));
  Json data = Json::object();
  data.set("train", std::move(source));
  data.set("batch", kExamples);
  data.set("shuffle", false);
  job.set("data", std::move(data));
  job.set("precision", precision);
  return Job(std::move(job), "job");
}

// Tensor by tensor, without the gaps between them.
std::vector<double> parameters_of(const Params& params) {
  std::vector<double> all;
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const Tensor values = params.parameter_tensor(static_cast<int>(i)).to(Dtype::f64);
    all.insert(all.end(), values.data<double>(), values.data<double>() + values.elements());
  }
  return all;
}

void put_start_values(Params& params) {
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const Tensor to = params.parameter_tensor(static_cast<int>(i));
    std::vector<double> values;
    for (int64_t k = 0; k < to.elements(); ++k) values.push_back(start_value(static_cast<int64_t>(i), k));
    copy_view(Tensor::from(params.specs()[i].shape, values).to(params.dtype()).view(), to.view());
  }
}

// The largest difference to PyTorch's losses and parameters over the largest of either.
double difference_to_reference(const std::string& precision, const TrainerOptions& options) {
  Trainer trainer(reference_job(precision), options);
  put_start_values(trainer.model().params());
  double worst = 0;
  for (const double loss : reference::kLosses) worst = std::max(worst, std::abs(trainer.step().loss - loss));
  const std::vector<double> parameters = parameters_of(trainer.model().params());
  EXPECT_EQ(parameters.size(), std::size(reference::kParameters));
  for (size_t i = 0; i < parameters.size(); ++i) worst = std::max(worst, std::abs(parameters[i] - reference::kParameters[i]));
  return worst;
}

TEST(Float64, TrainsAsPyTorchDoes) {
  for (const Backend backend : {Backend::ref, Backend::cpu})
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::string(backend == Backend::ref ? "ref" : "cpu") + ", threads " + std::to_string(threads));
      EXPECT_LE(difference_to_reference("float64", {.threads = threads, .backend = backend}), 1e-12);
    }
  EXPECT_GT(difference_to_reference("float32", {.threads = 1}), 1e-9) << "or the test could not tell the two apart";
}

TEST(Float64, BeginsWithTheValuesOfFloat32) {
  Trainer narrow(noisy_job(), {.threads = 1}), wide(noisy_job(R"(, "precision": "float64")"), {.threads = 1});
  EXPECT_EQ(parameters_of(wide.model().params()), parameters_of(narrow.model().params()));
}

// Every way through the optimiser that is not a kernel: norms, penalties, constraints.
TEST(Float64, ClipsAndConstrainsAsFloat32DoesButFiner) {
  const std::string more = R"(, "clip": {"type": "norm", "threshold": 0.5}, "constraint": [{"type": "max_norm", "max": 0.4},
      {"type": "non_negative", "on": "bias"}], "regularization": {"l1": 0.0001, "l2": 0.001})";
  Trainer narrow(tiny_job(more), {.threads = 2}), wide(tiny_job(R"(, "precision": "float64")" + more), {.threads = 2});
  for (int i = 0; i < 10; ++i) {
    const StepReport a = narrow.step(), b = wide.step();
    EXPECT_NEAR(a.loss, b.loss, 1e-4);
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4);
    EXPECT_EQ(a.accuracy, b.accuracy);
  }
  const std::vector<double> a = parameters_of(narrow.model().params()), b = parameters_of(wide.model().params());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_LE(worst, 1e-4);
  EXPECT_GT(worst, 0);
}

TEST(Float64, ModelsAreEvaluatedAsTheyWereTrained) {
  const TemporaryFolder folder;
  Trainer trainer(noisy_job(R"(, "precision": "float64")"), {.threads = 1});
  for (int i = 0; i < 5; ++i) trainer.step();
  save_model(trainer, folder / "model.safetensors");
  const Json before = trainer.evaluate("train");
  EXPECT_GT(before.find("accuracy")->as_number(), 0);

  LoadedModel loaded = load_model(folder / "model.safetensors");
  EXPECT_EQ(loaded.model->params().dtype(), Dtype::f64);
  EXPECT_EQ(loaded.model->output_types().at(0).dtype, Dtype::f64);
  EXPECT_EQ(parameters_of(loaded.model->params()), parameters_of(trainer.model().params()));
  ThreadTeam team(1);
  Evaluator evaluator(*loaded.model, team, open_source(Config(*trainer.job().json().find("data")->find("train"), "job"), "."), nullptr,
                      "job");
  EXPECT_EQ(evaluator.run(nullptr), before);
}

TEST(Float64, AnUnknownPrecisionIsNamed) {
  try {
    Trainer(tiny_job(R"(, "precision": "flaot64")"), {.threads = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("float64"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace perigee
