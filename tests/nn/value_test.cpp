// Values that layers compute, by small examples: gradients alone would not notice elements in the wrong place.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

struct Result {
  Shape shape;
  std::vector<double> values;
};

// The layer on inputs that count 0, 1, 2, ... through a batch of `batch`; parameters are `parameter`, states as given.
Result run_layer(const std::string& layer, const Shape& input, bool training = true, int64_t batch = 1, double parameter = 1,
                 std::map<std::string, double> states = {}) {
  Graph graph;
  const BuiltNetwork net = Network(Json(Json::Array{Json::parse(layer, "test")}), "test")
                               .build(graph, {{"x", {Dtype::f64, input}}}, {.batch = batch, .training = training, .dtype = Dtype::f64});
  std::map<std::string, Tensor> leaves;
  const auto filled = [](const Shape& shape, double value) {
    Tensor tensor(Dtype::f64, shape);
    std::fill_n(tensor.data<double>(), tensor.elements(), value);
    return tensor;
  };
  leaves["x"] = filled(net.inputs[0].shape(), 0);
  std::iota(leaves["x"].data<double>(), leaves["x"].data<double>() + leaves["x"].elements(), 0.0);
  for (const ParameterSpec& spec : net.parameters) leaves[spec.name] = filled(spec.shape, spec.role == ParameterRole::bias ? 0 : parameter);
  for (const StateSpec& spec : net.states)
    leaves[spec.name] = filled(spec.shape, states.contains(spec.name) ? states[spec.name] : spec.initial);
  Interpreter interpreter(graph);
  interpreter.step.training = training;
  interpreter.run(leaves);
  const Tensor& y = interpreter[net.outputs.at(0)];
  Result result{y.shape(), {y.data<double>(), y.data<double>() + y.elements()}};
  // Next states come after the values.
  for (const Assignment& assignment : graph.assignments())
    result.values.push_back(*interpreter[Value(&graph, assignment.value)].data<double>());
  return result;
}

using Values = std::vector<double>;

TEST(LayerValue, WhatIsMovedArrivesWhereItShould) {
  EXPECT_EQ(run_layer(R"({"type": "permute", "order": [2, 1]})", {2, 3}).values, (Values{0, 3, 1, 4, 2, 5}));
  // Deeplearning4j's (and TensorFlow's) order: the position in the block comes before the channel.
  EXPECT_EQ(run_layer(R"({"type": "space_to_depth", "block": 2})", {2, 2, 2}).values, (Values{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(run_layer(R"({"type": "upsampling", "size": [1, 2]})", {1, 2, 2}).values, (Values{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(run_layer(R"({"type": "upsampling", "size": 2})", {1, 2}).values, (Values{0, 0, 1, 1}));
  EXPECT_EQ(run_layer(R"({"type": "repeat", "n": 2})", {2}).values, (Values{0, 0, 1, 1}));
  EXPECT_EQ(run_layer(R"({"type": "subset", "from": 1, "to": 2})", {4}).values, (Values{1, 2}));
  EXPECT_EQ(run_layer(R"({"type": "cropping", "cropping": [1, 0, 0, 1]})", {1, 2, 2}).values, (Values{2}));
  EXPECT_EQ(run_layer(R"({"type": "zero_padding", "padding": [0, 1, 1, 0]})", {1, 1, 2}).values, (Values{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(run_layer(R"({"type": "unstack", "parts": 2, "index": 1})", {2}, true, 2).values, (Values{2, 3}));
}

TEST(LayerValue, WindowsSeeWhatTheyShould) {
  EXPECT_EQ(run_layer(R"({"type": "maxpool", "kernel": 2})", {1, 2, 4}).values, (Values{5, 7}));
  EXPECT_EQ(run_layer(R"({"type": "avgpool1d", "kernel": 2, "padding": 1})", {1, 3}).values, (Values{0, 1.5}));
  EXPECT_EQ(run_layer(R"({"type": "avgpool1d", "kernel": 2, "padding": 1, "count_include_pad": true})", {1, 3}).values, (Values{0, 1.5}));
  EXPECT_EQ(run_layer(R"({"type": "avgpool1d", "kernel": 3, "stride": 1, "padding": 1, "count_include_pad": true})", {1, 3}).values,
            (Values{1.0 / 3, 1, 1}));
  EXPECT_EQ(run_layer(R"({"type": "avgpool1d", "kernel": 3, "stride": 1, "padding": 1})", {1, 3}).values, (Values{0.5, 1, 1.5}));
  EXPECT_NEAR(run_layer(R"({"type": "global_pool", "kind": "pnorm"})", {1, 3}).values[0], std::sqrt(5), 1e-9);
  // A causal window ends at its own step, a same one is centred.
  EXPECT_EQ(run_layer(R"({"type": "conv1d", "out": 1, "kernel": 3, "padding": "causal"})", {1, 4}).values, (Values{0, 1, 3, 6}));
  EXPECT_EQ(run_layer(R"({"type": "conv1d", "out": 1, "kernel": 3, "padding": "same"})", {1, 4}).values, (Values{1, 3, 6, 5}));
  EXPECT_EQ(run_layer(R"({"type": "locally_connected1d", "out": 1, "kernel": 2, "stride": 2})", {1, 4}).values, (Values{1, 5}));
  EXPECT_EQ(run_layer(R"({"type": "deconv2d", "out": 1, "kernel": [1, 2], "stride": [1, 2]})", {1, 1, 3}).values,
            (Values{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(run_layer(R"({"type": "depthwise_conv2d", "kernel": 1, "multiplier": 2})", {2, 1, 1}).values, (Values{0, 0, 1, 1}));
  EXPECT_EQ(run_layer(R"({"type": "separable_conv2d", "out": 1, "kernel": 1})", {2, 1, 2}).values, (Values{2, 4}));
}

TEST(LayerValue, BatchNormCountsRunningStatisticsAndUsesThem) {
  // Values 0, 1, 2, 3: mean 1.5, mean square 3.5, variance 1.25.
  const Result trained = run_layer(R"({"type": "batchnorm", "epsilon": 0, "decay": 0.75})", {1}, true, 4);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(trained.values[i], (static_cast<double>(i) - 1.5) / std::sqrt(1.25), 1e-12);
  ASSERT_EQ(trained.values.size(), 6u);
  EXPECT_NEAR(trained.values[4], 0.25 * 1.5, 1e-12);
  // E[x^2] of the mixture is 0.75 * 1 + 0.25 * 3.5.
  EXPECT_NEAR(trained.values[5], 0.75 * 1 + 0.25 * 3.5 - std::pow(0.25 * 1.5, 2), 1e-12);
  const Result used = run_layer(R"({"type": "batchnorm", "epsilon": 0})", {1}, false, 4, 2, {{"bn1.mean", 1.5}, {"bn1.variance", 1.25}});
  ASSERT_EQ(used.values.size(), 4u) << "inference changes no state";
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(used.values[i], 2 * (static_cast<double>(i) - 1.5) / std::sqrt(1.25), 1e-12);
}

// Values around 1000 times their deviation, in float32, against the same in double.
TEST(LayerValue, BatchNormKeepsASmallVarianceBesideALargeMean) {
  constexpr double kMean = 1024, kDecay = 0.9;
  constexpr int64_t kRows = 32;
  const std::string layer = R"({"type": "batchnorm", "epsilon": 0, "decay": 0.9})";
  const auto network = [&](bool training, Graph* graph) {
    return Network(Json(Json::Array{Json::parse(layer, "test")}), "test")
        .build(*graph, {{"x", {Dtype::f32, Shape{1}}}}, {.batch = kRows, .training = training, .dtype = Dtype::f32});
  };
  const auto filled = [](int64_t n, double value) {
    Tensor tensor(Dtype::f32, Shape{n});
    std::fill_n(tensor.data<float>(), n, static_cast<float>(value));
    return tensor;
  };
  std::map<std::string, Tensor> leaves = {
      {"bn1.weight", filled(1, 1)}, {"bn1.bias", filled(1, 0)}, {"bn1.mean", filled(1, kMean)}, {"bn1.variance", filled(1, 1)}};
  double mean = kMean, variance = 1;
  Tensor x(Dtype::f32, Shape{kRows, 1});
  for (int batch = 0; batch < 50; ++batch) {
    double own = 0, square = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      x.data<float>()[i] = static_cast<float>(kMean + std::sin(batch + 2.1 * static_cast<double>(i)));
      own += x.data<float>()[i] / static_cast<double>(kRows);
    }
    for (int64_t i = 0; i < kRows; ++i) square += std::pow(x.data<float>()[i] - own, 2) / static_cast<double>(kRows);
    variance = kDecay * variance + (1 - kDecay) * square + kDecay * (1 - kDecay) * std::pow(own - mean, 2);
    mean = kDecay * mean + (1 - kDecay) * own;
    Graph graph;
    network(true, &graph);
    leaves["x"] = x;
    Interpreter interpreter(graph);
    interpreter.step.training = true;
    interpreter.run(leaves);
    std::map<std::string, Tensor> next = leaves;
    for (const Assignment& assignment : graph.assignments()) next[assignment.state] = interpreter[Value(&graph, assignment.value)].clone();
    leaves = next;
  }
  EXPECT_NEAR(leaves["bn1.variance"].data<float>()[0] / variance, 1, 1e-5);
  Graph graph;
  const BuiltNetwork net = network(false, &graph);
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  const double kept = leaves["bn1.mean"].data<float>()[0];
  EXPECT_NEAR(kept, mean, 1e-3);
  for (int64_t i = 0; i < kRows; ++i)
    EXPECT_NEAR(interpreter[net.outputs.at(0)].data<float>()[i], (x.data<float>()[i] - kept) / std::sqrt(variance), 1e-5);
}

TEST(LayerValue, LayerNormNormalisesWhatItIsTold) {
  const Result channels = run_layer(R"({"type": "layernorm", "over": "channels", "epsilon": 0})", {2, 3});
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(channels.values[i], i < 3 ? -1 : 1, 1e-12);
  const Result features = run_layer(R"({"type": "layernorm", "epsilon": 0})", {2, 2});
  EXPECT_NEAR(features.values[3], 1.5 / std::sqrt(1.25), 1e-12);
}

TEST(LayerValue, NoiseKeepsMeansInTrainingAndIsAbsentOtherwise) {
  constexpr int64_t kFeatures = 20000;
  const auto mean = [](const Values& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const double expected = (kFeatures - 1) / 2.0;
  for (const char* layer : {R"({"type": "dropout", "rate": 0.3})", R"({"type": "gaussian_dropout", "rate": 0.3})",
                            R"({"type": "gaussian_noise"})", R"({"type": "dense", "out": 1, "dropout": 0.3, "bias": false})"}) {
    const bool dense = std::string(layer).find("dense") != std::string::npos;
    const double scale = dense ? static_cast<double>(kFeatures) : 1;
    EXPECT_NEAR(mean(run_layer(layer, {kFeatures}).values) / scale / expected, 1, 0.02) << layer;
    EXPECT_NEAR(mean(run_layer(layer, {kFeatures}, false).values) / scale / expected, 1, 1e-12) << layer;
    EXPECT_NE(run_layer(layer, {kFeatures}).values, run_layer(layer, {kFeatures}, false).values) << layer;
  }
  const Values dropped = run_layer(R"({"type": "dropout", "rate": 0.3})", {kFeatures}).values;
  EXPECT_NEAR(static_cast<double>(std::count(dropped.begin(), dropped.end(), 0.0)) / kFeatures, 0.3, 0.02);
  // Whole channels: each of the four positions of a channel shares its fate.
  const Values spatial = run_layer(R"({"type": "spatial_dropout", "rate": 0.5})", {50, 2, 2}).values;
  int zero_channels = 0;
  for (size_t c = 1; c < 50; ++c) {
    const auto zeros = std::count(spatial.begin() + static_cast<int64_t>(4 * c), spatial.begin() + static_cast<int64_t>(4 * c + 4), 0.0);
    EXPECT_TRUE(zeros == 0 || zeros == 4) << c;
    zero_channels += zeros == 4;
  }
  EXPECT_GT(zero_channels, 10);
  EXPECT_LT(zero_channels, 40);
}

TEST(LayerValue, WeightNoiseIsForTrainingOnly) {
  const std::string layer = R"({"type": "dense", "out": 1, "bias": false, "weight_noise": {"type": "drop_connect", "rate": 0.5}})";
  const double full = run_layer(layer, {1000}, false).values[0], noisy = run_layer(layer, {1000}).values[0];
  EXPECT_NEAR(full, 499500, 1e-6);
  EXPECT_NE(noisy, full);
  EXPECT_NEAR(noisy / full, 1, 0.15);
  // The noise belongs to the step: all rows of a batch see the same weights.
  const Values rows =
      run_layer(R"({"type": "dense", "out": 1, "bias": false, "weight_noise": {"type": "gaussian", "stddev": 0.5}})", {1}, true, 3).values;
  EXPECT_NEAR(rows[2], 2 * rows[1], 1e-12);
}

}  // namespace
}  // namespace perigee
