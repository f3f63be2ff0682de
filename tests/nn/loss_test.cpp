// Every loss, because it is there: gradients against finite differences in float64; values against formulas; targets that do not fit.
#include <gtest/gtest.h>

#include <cmath>

#include "src/nn/loss.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

Shape shape_of(const char* text, int64_t batch) {
  std::vector<int64_t> dims{batch};
  const Json json = Json::parse(text, "shape");
  for (const Json& dim : json.as_array()) dims.push_back(dim.as_int());
  return Shape(dims);
}

// In every second cell one object, whose middle is there; of two classes.
Tensor grid_of_objects(const Shape& output) {
  const int64_t rows = output[2], columns = output[3];
  Tensor grid = Tensor::from(Shape{output[0], 6, rows, columns}, std::vector<double>(static_cast<size_t>(output[0] * 6 * rows * columns)));
  double* const numbers = grid.data<double>();
  for (int64_t cell = 0; cell < output[0] * rows * columns; cell += 2) {
    const int64_t place = cell % (rows * columns), n = cell / (rows * columns), row = place / columns, column = place % columns;
    const double values[] = {static_cast<double>(column) - 0.3, static_cast<double>(row) + 0.1, static_cast<double>(column) + 1.2,
                             static_cast<double>(row) + 0.6,    cell % 4 == 0 ? 1.0 : 0.0,      cell % 4 == 0 ? 0.0 : 1.0};
    for (int64_t i = 0; i < 6; ++i) numbers[(n * 6 + i) * rows * columns + place] = values[i];
  }
  return grid;
}

Tensor target_for(const std::string& kind, const Shape& output, std::mt19937_64& random) {
  if (kind == "boxes") return grid_of_objects(output);
  if (kind == "class") return case_values(index({output[0]}, output[1]), true, random);
  if (kind == "labels") return case_values(integers(Dtype::i64, {output[0], 2}, 1, static_cast<double>(output[1])), true, random);
  if (kind == "pair") return case_values(real({output[0], 2}), true, random);
  if (kind == "probability") return case_values(real(output, 0.05, 0.95), true, random);
  if (kind == "positive") return case_values(real(output, 0.5, 3), true, random);
  Tensor values = case_values(real(output), true, random);
  for (int64_t i = 0; i < values.elements() && kind != "real"; ++i)
    values.data<double>()[i] = values.data<double>()[i] > 0 ? 1 : kind == "binary" ? 0 : -1;
  return values;
}

TEST(Loss, GradientsOfEveryExampleAgreeWithFiniteDifferences) {
  for (const LossDef* loss : all_losses()) {
    SCOPED_TRACE(loss->name);
    ASSERT_NE(loss->example, nullptr);
    std::mt19937_64 random(5);
    const Shape shape = shape_of(loss->example_output, 5);
    Graph graph;
    std::map<std::string, Tensor> leaves;
    leaves["x"] = case_values(real(shape, loss->example_low, loss->example_high), true, random);
    leaves["y"] = target_for(loss->example_target, shape, random);
    const Value x = graph.input("x", {Dtype::f64, shape});
    const Value y = graph.input("y", {leaves["y"].dtype(), leaves["y"].shape()});
    try {
      const Value values = build_loss(graph, Json::parse(loss->example, "example"), "loss", x, y);
      ASSERT_EQ(values.shape(), (Shape{5})) << "one value for each example";
      const Value root = weighted_total(graph, values, "weights", leaves, random);
      check_gradients(graph, root, {"x"}, {x}, leaves, 1e-5, 20);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// The loss of outputs and targets, in float64.
std::vector<double> values_of(const std::string& loss, const Tensor& output, const Tensor& target, const char* activation = nullptr) {
  Graph graph;
  Value x = graph.input("x", {output.dtype(), output.shape()});
  if (activation != nullptr) x = graph.apply(activation, {x});
  const Value y = graph.input("y", {target.dtype(), target.shape()});
  const Value values = build_loss(graph, Json::parse(loss, "test"), "loss", x, y);
  Interpreter interpreter(graph);
  interpreter.run({{"x", output}, {"y", target}});
  const Tensor& result = interpreter[values];
  return {result.data<double>(), result.data<double>() + result.elements()};
}

Tensor rows(const Shape& shape, std::vector<double> values) { return Tensor::from(shape, values); }

TEST(Loss, ValuesAreThoseOfTheFormulas) {
  const Tensor x = rows({1, 2}, {0.3, -1.2}), y = rows({1, 2}, {1, 0.5});
  EXPECT_NEAR(values_of("\"mse\"", x, y)[0], (0.49 + 2.89) / 2, 1e-12);
  EXPECT_NEAR(values_of("\"l2\"", x, y)[0], 0.49 + 2.89, 1e-12);
  EXPECT_NEAR(values_of("\"mae\"", x, y)[0], (0.7 + 1.7) / 2, 1e-12);
  EXPECT_NEAR(values_of("\"huber\"", x, y)[0], (0.245 + 1.2) / 2, 1e-12);
  EXPECT_NEAR(values_of("\"mape\"", x, y)[0], 100 * (0.7 + 3.4) / 2, 1e-9);
  EXPECT_NEAR(values_of(R"({"type": "mse", "reduction": "sum", "weights": [2, 1]})", x, y)[0], 2 * 0.49 + 2.89, 1e-12);
  const auto p = [](double v) { return 1 / (1 + std::exp(-v)); };
  EXPECT_NEAR(values_of("\"binary_cross_entropy\"", x, y)[0],
              -(std::log(p(0.3)) + 0.5 * std::log(p(-1.2)) + 0.5 * std::log(1 - p(-1.2))) / 2, 1e-12);
  EXPECT_NEAR(values_of("\"hinge\"", x, rows({1, 2}, {1, -1}))[0], 0.7, 1e-12);
  EXPECT_NEAR(values_of("\"poisson\"", rows({1, 1}, {2}), rows({1, 1}, {3}))[0], 2 - 3 * std::log(2), 1e-12);
  EXPECT_NEAR(values_of("\"cosine_proximity\"", x, y)[0], -(0.3 - 0.6) / (std::sqrt(0.09 + 1.44) * std::sqrt(1.25)), 1e-9);
  // One mixture part is a plain normal.
  EXPECT_NEAR(values_of(R"({"type": "mixture_density", "mixtures": 1})", rows({1, 3}, {7, std::log(2), 1}), rows({1, 1}, {2}))[0],
              0.5 * std::log(2 * M_PI) + std::log(2) + 0.125, 1e-12);
  // One of two wanted labels is found surely; one unwanted label is half found.
  EXPECT_NEAR(values_of("\"f_measure\"", rows({3, 1}, {100, -100, 0}), rows({3}, {1, 1, 0}))[0], 1 - 2 * 1 / (2 + 1.5), 1e-9);
}

TEST(Loss, CrossEntropyTakesClassesDistributionsLogitsAndProbabilities) {
  const Tensor x = rows({2, 3}, {0.3, -1.2, 2, 0, 0, 0});
  const Tensor classes = Tensor::from<int64_t>({2}, {2, 1}), one_hot = rows({2, 3}, {0, 0, 1, 0, 1, 0}), floats = rows({2, 1}, {2, 1});
  const double z = std::exp(0.3) + std::exp(-1.2) + std::exp(2.0);
  const std::vector<double> expected{std::log(z) - 2, std::log(3)};
  for (const Tensor& target : {classes, one_hot, floats})
    for (const char* activation : {static_cast<const char*>(nullptr), "softmax"}) {
      const std::vector<double> got = values_of("\"cross_entropy\"", x, target, activation);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
    }
  EXPECT_NEAR(values_of(R"({"type": "cross_entropy", "weights": [1, 3, 2]})", x, classes)[1], 3 * std::log(3), 1e-12);
  EXPECT_NEAR(values_of(R"({"type": "cross_entropy", "label_smoothing": 0.3})", x, classes)[0], std::log(z) - 0.8 * 2 - 0.1 * (0.3 - 1.2),
              1e-12);
}

// As Keras smooths: y (1 - s) + s / classes, and y (1 - s) + s / 2 of a yes or no; here the loss of the expected label.
TEST(Loss, FocalSmoothsLabels) {
  const Tensor x = rows({1, 3}, {0.3, -1.2, 2}), classes = Tensor::from<int64_t>({1}, {2});
  const double z = std::exp(0.3) + std::exp(-1.2) + std::exp(2.0);
  const auto term = [&](double logit) { return -std::pow(1 - std::exp(logit) / z, 2) * std::log(std::exp(logit) / z); };
  EXPECT_NEAR(values_of(R"({"type": "focal", "label_smoothing": 0.3})", x, classes)[0], 0.8 * term(2) + 0.1 * (term(0.3) + term(-1.2)),
              1e-12);
  const double p = 1 / (1 + std::exp(-0.7));
  EXPECT_NEAR(values_of(R"({"type": "focal", "label_smoothing": 0.2})", rows({1, 1}, {0.7}), rows({1}, {1}))[0],
              -0.25 * 0.9 * (1 - p) * (1 - p) * std::log(p) - 0.75 * 0.1 * p * p * std::log(1 - p), 1e-12);
}

// The other answer is meant with a probability of s / 2: the mean of the losses of both.
TEST(Loss, HingesSmoothLabels) {
  const Tensor x = rows({1, 3}, {0.3, -1.2, 0.5}), y = rows({1, 3}, {1, -1, 1}), other = rows({1, 3}, {-1, 1, -1});
  EXPECT_NEAR(values_of(R"({"type": "hinge", "label_smoothing": 0.2})", x, y)[0], 0.9 * (0.7 + 0 + 0.5) + 0.1 * (1.3 + 2.2 + 1.5), 1e-12);
  EXPECT_NEAR(values_of(R"({"type": "squared_hinge", "label_smoothing": 0.2})", x, y)[0],
              0.9 * (0.49 + 0 + 0.25) + 0.1 * (1.69 + 4.84 + 2.25), 1e-12);
  for (const std::string type : {"hinge", "squared_hinge"}) {
    const std::string half = R"({"type": ")" + type + R"(", "label_smoothing": 1, "weights": [1, 2, 3], "reduction": "mean"})",
                      plain = R"({"type": ")" + type + R"(", "weights": [1, 2, 3], "reduction": "mean"})";
    EXPECT_NEAR(values_of(half, x, y)[0], (values_of(plain, x, y)[0] + values_of(plain, x, other)[0]) / 2, 1e-12) << type;
    EXPECT_EQ(values_of(R"({"type": ")" + type + R"(", "label_smoothing": 0})", x, y), values_of('"' + type + '"', x, y));
  }
}

TEST(Loss, OtherLossesOfClassesSmoothLabels) {
  // sum(q * log(q / softmax(x))) of NumPy, where q = 0.7 y + 0.1
  EXPECT_NEAR(
      values_of(R"({"type": "kl_divergence", "label_smoothing": 0.3})", rows({1, 3}, {0.3, -1.2, 2}), rows({1, 3}, {0.1, 0.7, 0.2}))[0],
      1.4236273386421372, 1e-12);
  const auto p = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double hits = 0.9 * p(0.7) + 0.1 * p(-0.4) + 0.9 * p(1.1), all = p(0.7) + p(-0.4) + p(1.1) + 1.9;
  EXPECT_NEAR(values_of(R"({"type": "f_measure", "label_smoothing": 0.2})", rows({3, 1}, {0.7, -0.4, 1.1}), rows({3}, {1, 0, 1}))[0],
              1 - 2 * hits / all, 1e-9);
  // Each label applies with a probability of its own: 0.95 and 0.05.
  const double pairs = 0.95 * 0.95 * std::exp(-0.2 - 0.8) + 0.05 * 0.05 * std::exp(0.8 + 0.2) + 2 * 0.95 * 0.05;
  EXPECT_NEAR(values_of(R"({"type": "multi_label", "label_smoothing": 0.1})", rows({1, 2}, {0.8, -0.2}), rows({1, 2}, {1, 0}))[0], pairs,
              1e-12);
}

TEST(Loss, LargeLogitsStayFinite) {
  const Tensor x = rows({1, 2}, {800, -800}), y = rows({1, 2}, {0, 1});
  for (const char* loss :
       {"\"binary_cross_entropy\"", "\"cross_entropy\"", R"({"type": "focal", "binary": true})", "\"kl_divergence\"", "\"log_cosh\""}) {
    EXPECT_TRUE(std::isfinite(values_of(loss, x, y)[0])) << loss;
    EXPECT_GT(values_of(loss, x, y)[0], 100) << loss;
  }
  EXPECT_NEAR(values_of("\"binary_cross_entropy\"", x, y, "sigmoid")[0], 800, 1e-9);
}

std::string loss_error(const std::string& loss, const Type& output, const Type& target) {
  Graph graph;
  try {
    build_loss(graph, Json::parse(loss, "test"), "job.json: loss", graph.input("x", output), graph.input("y", target));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Loss, ErrorsSayWhatDoesNotFit) {
  const Type output{Dtype::f32, {4, 10}};
  EXPECT_EQ(loss_error("\"crossentropy\"", output, {Dtype::i64, {4}}),
            "job.json: loss: there is no loss 'crossentropy'; did you mean 'cross_entropy'?");
  EXPECT_NE(loss_error("\"mse\"", output, {Dtype::f32, {4, 9}})
                .find("job.json: loss: the target does not fit the network's output f32[4x10]; got f32[4x9]"),
            std::string::npos);
  EXPECT_NE(loss_error("\"cross_entropy\"", output, {Dtype::i64, {4, 2}}).find("as many outputs as there are classes"), std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "mse", "weight": [1]})", output, output).find("unknown key 'weight'; did you mean 'weights'"),
            std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "mse", "weights": [1, 2]})", output, output).find("one number for each of the 10 outputs; got 2"),
            std::string::npos);
  EXPECT_NE(loss_error(R"({"type": "mixture_density", "mixtures": 3})", output, {Dtype::f32, {4, 2}}).find("12 outputs"),
            std::string::npos);
}

}  // namespace
}  // namespace perigee
