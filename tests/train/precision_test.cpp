// Training in float64: the numbers of PyTorch, on any backend and any number of threads, and a model that is evaluated as it was trained.
// Training in bf16: PyTorch's numbers to within the rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/graph/op.h"
#include "src/model/evaluator.h"
#include "src/run/checkpoint.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"
#include "tests/train/references/precision_reference.h"

namespace perigee {
namespace {

using reference::kExamples, reference::kSteps;

double start_value(int64_t tensor, int64_t k) { return static_cast<double>((7 * k + 3 * tensor) % 13 - 6) / 8; }

// The network, data and optimiser of precision_reference.py.
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

TEST(Precision, HasTheNamesThatAreUsedElsewhere) {
  const auto job_of = [](const std::string& name) { return tiny_job(R"(, "precision": ")" + name + "\""); };
  for (const auto& [name, same] : {std::pair("fp32", "float32"), {"fp64", "float64"}, {"bfloat16", "bf16"}, {"float16", "fp16"}}) {
    EXPECT_EQ(job_of(name).precision(), job_of(same).precision()) << name;
    EXPECT_EQ(job_of(name).half(), job_of(same).half()) << name;
  }
  EXPECT_EQ(job_of("fp64").precision(), Dtype::f64);
  EXPECT_EQ(job_of("bfloat16").half(), Dtype::bf16);
}

TEST(MixedPrecision, TrainsAsPyTorchsAutocastDoes) {
  Trainer trainer(reference_job("bf16"), {.threads = 1, .backend = Backend::ref});
  put_start_values(trainer.model().params());
  double to_autocast = 0, to_float64 = 0;
  for (size_t i = 0; i < std::size(reference::kLosses); ++i) {
    const double loss = trainer.step().loss;
    to_autocast = std::max(to_autocast, std::abs(loss - reference::kHalfLosses[i]));
    to_float64 = std::max(to_float64, std::abs(loss - reference::kLosses[i]));
  }
  EXPECT_LE(to_autocast, 0.01);
  EXPECT_GT(to_float64, 1e-4) << "or nothing was rounded";
}

// Gradients, running statistics and losses of a network with everything that reads and writes 16 bits, against those of float32.
TEST(MixedPrecision, GradientsAreThoseOfFloat32ToWithinTheRounding) {
  const std::string layers = R"([{"type": "conv2d", "out": 6, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
      {"type": "residual", "layers": [{"type": "conv2d", "out": 6, "kernel": 3, "padding": "same"}, {"type": "batchnorm", "activation": "relu"}]},
      {"type": "dense", "out": 24, "activation": "tanh"}, {"type": "layernorm"}, {"type": "dropout", "rate": 0.2}, {"type": "dense", "out": 10}])";
  Trainer narrow(job_of(layers, R"(, "precision": "bf16")"), {.threads = 1, .backend = Backend::ref});
  Trainer full(job_of(layers), {.threads = 1, .backend = Backend::ref});
  Storage a(full.model().params().block_bytes()), b(full.model().params().block_bytes());
  for (const auto& [trainer, gradient] : {std::pair(&full, &a), std::pair(&narrow, &b)}) {
    const GradientReport report = trainer->sum_gradient(trainer->next_batch(), {.to = gradient->data()});
    EXPECT_TRUE(report.finite);
  }
  for (const ParamWindow& window : full.model().params().windows()) {
    double square = 0, difference = 0;
    for (int64_t i = window.offset; i < window.offset + window.elements; ++i) {
      const double x = reinterpret_cast<const float*>(a.data())[i], y = reinterpret_cast<const float*>(b.data())[i];
      square += x * x;
      difference += (x - y) * (x - y);
    }
    // Eight layers of 8 significant bits; and a bias in front of a normalisation has no gradient but for the rounding.
    EXPECT_LE(std::sqrt(difference), 0.1 * std::sqrt(square) + 0.1) << window.name << " of " << std::sqrt(square);
    EXPECT_GT(difference, 0) << window.name;
  }
}

// Batch normalisation that adds the shortcut and clips, as fusion makes of residual blocks: both images are stored alike.
TEST(MixedPrecision, ResidualBlocksTrainWithTheirSumInTheNormalisation) {
  const std::string layers =
      R"([{"type": "conv2d", "out": 6, "kernel": 5, "stride": 2, "bias": false}, {"type": "batchnorm", "activation": "relu"},
      {"type": "residual", "activation": "relu", "layers": [{"type": "conv2d", "out": 8, "kernel": 3, "padding": "same", "bias": false},
        {"type": "batchnorm"}], "shortcut": {"type": "sequential", "layers": [{"type": "conv2d", "out": 8, "kernel": 1, "bias": false},
        {"type": "batchnorm"}]}}, {"type": "dense", "out": 10}])";
  Trainer narrow(job_of(layers, R"(, "precision": "bf16")"), {.threads = 1, .backend = Backend::ref});
  Trainer full(job_of(layers), {.threads = 1, .backend = Backend::ref});
  bool summed = false;
  const Graph graph = narrow.model().training_graph(4);
  for (const Node& node : graph.nodes())
    summed = summed || (std::string_view(node.op->name) == "batch_norm" && node.inputs.size() > 3 && node.inputs[3].node >= 0);
  EXPECT_TRUE(summed);
  for (int step = 0; step < 4; ++step) EXPECT_NEAR(narrow.step().loss, full.step().loss, 0.05) << step;
}

// Activations between layers are stored in 16 bits, results of the step in 32.
TEST(MixedPrecision, StoresHalvesBetweenLayersAndFloatsOutside) {
  const Trainer trainer(noisy_job(R"(, "precision": "bf16")"), {.threads = 1, .backend = Backend::ref});
  const Graph graph = trainer.model().training_graph(4);
  for (const NamedValue& output : graph.outputs()) EXPECT_EQ(graph.type(output.value).dtype, Dtype::f32) << output.name;
  for (const Assignment& assignment : graph.assignments()) EXPECT_EQ(graph.type(assignment.value).dtype, Dtype::f32) << assignment.state;
  int products = 0;
  for (const Node& node : graph.nodes()) {
    const std::string_view op = node.op->name;
    if (!op.starts_with("conv2d") && !op.starts_with("linear") && !op.starts_with("batch_norm")) continue;
    ++products;
    EXPECT_EQ(graph.type(node.inputs[0]).dtype, Dtype::bf16) << op;
    EXPECT_EQ(node.outputs[0].dtype, Dtype::bf16) << op;
    if (op == "batch_norm") {
      EXPECT_EQ(node.outputs[1].dtype, Dtype::f32);
    }
  }
  EXPECT_GT(products, 6);
}

// Losses, parameters and the scales after each step; the first eight are skipped. One slice, as in PyTorch: what slices sum in f16 overflows later.
TEST(MixedPrecision, ScalesTheLossAsPyTorchsGradScalerDoes) {
  for (const Backend backend : {Backend::ref, Backend::cpu}) {
    Trainer trainer(reference_job("fp16"), {.threads = 1, .backend = backend, .sub_batch = reference::kExamples});
    put_start_values(trainer.model().params());
    LossScale start = *trainer.loss_scale();
    start.scale = std::ldexp(1.0f, reference::kScaleBits);
    trainer.set_loss_scale(start);
    double previous = std::ldexp(1.0, reference::kScaleBits);
    for (size_t i = 0; i < std::size(reference::kScaledLosses); ++i) {
      const StepReport report = trainer.step();
      EXPECT_NEAR(report.loss, reference::kScaledLosses[i], 1e-3) << i;
      EXPECT_EQ(report.loss_scale, reference::kScales[i]) << i;
      EXPECT_EQ(report.skipped, reference::kScales[i] < previous) << i;
      previous = reference::kScales[i];
    }
    const std::vector<double> parameters = parameters_of(trainer.model().params());
    for (size_t i = 0; i < parameters.size(); ++i) EXPECT_NEAR(parameters[i], reference::kScaledParameters[i], 0.02) << i;
  }
}

TEST(MixedPrecision, Tf32IsFloat32OnACpu) {
  Trainer rounded(lenet_job(R"(, "precision": "tf32")"), {.threads = 1, .measure = false}),
      full(lenet_job(), {.threads = 1, .measure = false});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rounded.step().loss, full.step().loss);
  EXPECT_EQ(bits_of(rounded), bits_of(full));
}

}  // namespace
}  // namespace perigee
