// The loss of labels without places against PyTorch's, and at its borders.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/model/metrics/text_scores.h"
#include "src/nn/ctc_decode.h"
#include "src/nn/loss.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

struct Found {
  std::vector<double> loss, grad;
};

Found ctc(const Tensor& logits, const Tensor& labels, const Tensor& steps, const char* attrs) {
  Graph graph;
  const Value x = graph.input("x", {logits.dtype(), logits.shape()}), y = graph.input("y", {labels.dtype(), labels.shape()}),
              t = graph.input("t", {steps.dtype(), steps.shape()});
  const Value loss = graph.apply("ctc", {x, y, t}, Json::parse(attrs, "attrs"));
  const std::vector<Value> targets{x}, grads = gradients(graph, loss, ones_like(loss), targets);
  Interpreter interpreter(graph);
  interpreter.run({{"x", logits}, {"y", labels}, {"t", steps}});
  const auto list = [&](const Value& value) {
    const Tensor tensor = interpreter[value].clone();
    return std::vector<double>(tensor.data<double>(), tensor.data<double>() + tensor.elements());
  };
  return {list(loss), list(grads[0])};
}

TEST(Ctc, AgreesWithPytorch) {
  const char* data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data != nullptr ? data : "") + "/oracles/sequences/ctc.npz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  std::map<std::string, Tensor> file;
  for (auto& [name, tensor] : parse_npz(read_file(path), path)) file[name] = tensor;
  const Shape shape = file.at("logits").shape();  // [T, B, C]
  const int64_t steps = shape[0], n = shape[1], classes = shape[2];
  Tensor logits(Dtype::f64, Shape{n, classes, steps}), labels(Dtype::i64, Shape{n, 8});
  std::fill_n(labels.data<int64_t>(), labels.elements(), int64_t{-1});
  for (int64_t i = 0, at = 0; i < n; ++i)
    for (int64_t l = 0; l < file.at("target_lengths").data<int64_t>()[i]; ++l)
      labels.data<int64_t>()[i * 8 + l] = file.at("targets").data<int64_t>()[at++];
  const auto place = [&](int64_t t, int64_t i, int64_t c) { return (t * n + i) * classes + c; };
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < classes; ++c)
      for (int64_t t = 0; t < steps; ++t)
        logits.data<double>()[(i * classes + c) * steps + t] = file.at("logits").data<double>()[place(t, i, c)];
  const Found plain = ctc(logits, labels, file.at("input_lengths"), "{}");
  const Found finite = ctc(logits, labels, file.at("input_lengths"), R"({"zero_infinity": true})");
  for (int64_t i = 0; i < n; ++i) {
    const double expected = file.at("loss").data<double>()[i];
    if (std::isinf(expected)) EXPECT_EQ(plain.loss[static_cast<size_t>(i)], expected);
    else EXPECT_NEAR(plain.loss[static_cast<size_t>(i)], expected, 1e-10);
    EXPECT_NEAR(finite.loss[static_cast<size_t>(i)], file.at("loss_zero_infinity").data<double>()[i], 1e-10);
    for (int64_t c = 0; c < classes; ++c)
      for (int64_t t = 0; t < steps; ++t)
        ASSERT_NEAR(finite.grad[static_cast<size_t>((i * classes + c) * steps + t)], file.at("grad").data<double>()[place(t, i, c)], 1e-10)
            << "example " << i << ", class " << c << ", step " << t;
  }
}

// Targets in a table, padded to the longest.
TEST(Ctc, AgreesWithPytorchOverHundredsOfSteps) {
  const char* data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data != nullptr ? data : "") + "/oracles/sequences/ctc_long.npz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  std::map<std::string, Tensor> file;
  for (auto& [name, tensor] : parse_npz(read_file(path), path)) file[name] = tensor;
  const Shape shape = file.at("logits").shape(), wide = file.at("targets").shape();  // [T, B, C], [B, L]
  const int64_t steps = shape[0], n = shape[1], classes = shape[2];
  Tensor logits(Dtype::f64, Shape{n, classes, steps}), labels = file.at("targets").clone();
  for (int64_t i = 0; i < labels.elements(); ++i)
    if (i % wide[1] >= file.at("target_lengths").data<int64_t>()[i / wide[1]]) labels.data<int64_t>()[i] = -1;
  const auto theirs = [&](int64_t i) { return (i % steps * n + i / steps / classes) * classes + i / steps % classes; };
  for (int64_t i = 0; i < logits.elements(); ++i) logits.data<double>()[i] = file.at("logits").data<double>()[theirs(i)];
  const Found found = ctc(logits, labels, file.at("input_lengths"), "{}");
  for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(found.loss[static_cast<size_t>(i)], file.at("loss").data<double>()[i], 1e-9);
  for (int64_t i = 0; i < logits.elements(); ++i)
    ASSERT_NEAR(found.grad[static_cast<size_t>(i)], file.at("grad").data<double>()[theirs(i)], 1e-10) << i;
}

// Two classes of the same probability: each path of T steps has 2^-T.
TEST(Ctc, CountsPathsAtItsBorders) {
  const Tensor logits = Tensor::from(Shape{1, 2, 3}, std::vector<double>(6, 0.0));
  const auto loss = [&](std::vector<int64_t> labels, int64_t steps, const char* attrs = "{}") {
    const Tensor y = Tensor::from<int64_t>(Shape{1, static_cast<int64_t>(labels.size())}, labels);
    return ctc(logits, y, Tensor::from<int64_t>(Shape{1}, {steps}), attrs).loss[0];
  };
  EXPECT_NEAR(loss({-1, -1}, 3), 3 * std::log(2), 1e-12) << "no label: blanks alone";
  EXPECT_NEAR(loss({1, -1}, 3), -std::log(6.0 / 8), 1e-12);
  EXPECT_NEAR(loss({1, 1}, 3), 3 * std::log(2), 1e-12) << "a blank between equal labels";
  EXPECT_NEAR(loss({0, -1}, 2, R"({"blank": 1})"), -std::log(3.0 / 4), 1e-12);
  EXPECT_TRUE(std::isinf(loss({1, 1}, 2))) << "no room";
  EXPECT_EQ(loss({1, 1}, 2, R"({"zero_infinity": true})"), 0);
  EXPECT_EQ(loss({-1}, 0), 0);
  EXPECT_TRUE(std::isinf(loss({1}, 0)));
  for (int64_t label : {0, 2}) EXPECT_TRUE(std::isnan(loss({label}, 3))) << "blank, or no class";
  for (int64_t steps : {-1, 4}) EXPECT_TRUE(std::isnan(loss({1}, steps)));
}

TEST(Ctc, RefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f64, Shape{2, 3, 4}}), flat = graph.input("f", {Dtype::f64, Shape{2, 3}}),
              y = graph.input("y", {Dtype::i64, Shape{2, 2}}), deep = graph.input("d", {Dtype::i64, Shape{2, 2, 2}});
  const auto text = [&](const char* loss, Value output, Value target) {
    try {
      build_loss(graph, Json::parse(loss, "loss"), "loss", output, target);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(text("\"ctc\"", flat, y).find("ctc does not fit"), std::string::npos);
  EXPECT_NE(text("\"ctc\"", x, deep).find("ctc does not fit"), std::string::npos);
  EXPECT_NE(text(R"({"type": "ctc", "blank": 3})", x, y).find("must be one of the 3 classes"), std::string::npos);
  EXPECT_EQ(text("\"ctc\"", x, y), "");
}

// Logits of one example, [T, C], as logarithms of probabilities in (C, T).
Tensor log_probabilities(const double* logits, int64_t steps, int64_t classes) {
  Tensor y(Dtype::f64, Shape{classes, steps});
  for (int64_t t = 0; t < steps; ++t) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[t * classes + c]);
    for (int64_t c = 0; c < classes; ++c) y.data<double>()[c * steps + t] = logits[t * classes + c] - std::log(sum);
  }
  return y;
}

TEST(Ctc, DecodesAsKerasDoes) {
  const char* data = std::getenv("PERIGEE_DATA");
  const std::string path = std::string(data != nullptr ? data : "") + "/oracles/sequences/keras_ctc_decode.npz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  std::map<std::string, Tensor> file;
  for (auto& [name, tensor] : parse_npz(read_file(path), path)) file[name] = tensor;
  const Tensor logits = file.at("logits").to(Dtype::f64), lengths = file.at("lengths").to(Dtype::i64),
               greedy = file.at("greedy").to(Dtype::i64), beam = file.at("beam_search").to(Dtype::i64),
               scores = file.at("beam_search_score").to(Dtype::f64);
  const int64_t n = logits.shape()[0], steps = logits.shape()[1], classes = logits.shape()[2], paths = beam.shape()[0];
  const auto row = [&](const Tensor& from, int64_t place) {
    std::vector<int64_t> labels(from.data<int64_t>() + place * steps, from.data<int64_t>() + (place + 1) * steps);
    labels.erase(std::find(labels.begin(), labels.end(), -1), labels.end());
    return labels;
  };
  for (int64_t i = 0; i < n; ++i) {
    const Tensor y = log_probabilities(logits.data<double>() + i * steps * classes, steps, classes);
    const int64_t own = lengths.data<int64_t>()[i];
    EXPECT_EQ(ctc_greedy(y.view(), own, 0).labels, row(greedy, i));
    const std::vector<LabelSequence> found = ctc_beam(y.view(), own, 0, 25, paths);
    ASSERT_EQ(static_cast<int64_t>(found.size()), paths);
    for (int64_t p = 0; p < paths; ++p) {
      EXPECT_EQ(found[static_cast<size_t>(p)].labels, row(beam, p * n + i));
      EXPECT_NEAR(found[static_cast<size_t>(p)].score, scores.data<double>()[i * paths + p], 1e-6);
    }
  }
}

// With a beam that keeps everything, a sequence's score is minus its loss.
TEST(Ctc, ABeamOfAllPrefixesGivesTheLoss) {
  std::mt19937_64 random(3);
  const Tensor logits = case_values(real({1, 3, 5}), true, random);
  Tensor rows(Dtype::f64, Shape{5, 3});
  for (int64_t i = 0; i < 15; ++i) rows.data<double>()[i % 5 * 3 + i / 5] = logits.data<double>()[i];
  for (const LabelSequence& found : ctc_beam(log_probabilities(rows.data<double>(), 5, 3).view(), 5, 2, 1000, 1000)) {
    if (!std::isfinite(found.score)) continue;
    std::vector<int64_t> labels = found.labels;
    labels.push_back(-1);
    const Tensor y = Tensor::from<int64_t>(Shape{1, static_cast<int64_t>(labels.size())}, labels);
    EXPECT_NEAR(ctc(logits, y, Tensor::from<int64_t>(Shape{1}, {5}), R"({"blank": 2})").loss[0], -found.score, 1e-10);
  }
}

TEST(Ctc, EditDistanceIsLevenshteins) {
  const auto distance = [](const std::string& a, const std::string& b) {
    return edit_distance(std::vector<int64_t>(a.begin(), a.end()), std::vector<int64_t>(b.begin(), b.end()));
  };
  EXPECT_EQ(distance("kitten", "sitting"), 3);
  EXPECT_EQ(distance("sunday", "saturday"), 3);
  EXPECT_EQ(distance("", "abc"), 3);
  EXPECT_EQ(distance("abc", ""), 3);
  EXPECT_EQ(distance("abc", "abc"), 0);
}

}  // namespace
}  // namespace perigee
