// Masks of steps: where they are carried, where they end, and layers that must not see padding.
#include <gtest/gtest.h>

#include <array>

#include "src/core/error.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

constexpr int64_t kBatch = 3;

struct Masked {
  Graph graph;
  BuiltNetwork network;
};

void build_masked(Masked& built, const std::string& layers, const Shape& x, FieldRole role = FieldRole::length, Dtype dtype = Dtype::f64) {
  const Shape shape = role == FieldRole::length ? Shape{} : Shape{x[x.rank() - 1]};
  const std::vector<NetworkInput> inputs = {{"x", {dtype, x}}, {"n", {Dtype::i64, shape}, role, "x"}};
  built.network =
      Network(Json::parse(layers, "test"), "net.json").build(built.graph, inputs, {.batch = kBatch, .training = true, .dtype = dtype});
}

bool has_mask(const std::string& layers, const Shape& x) {
  Masked built;
  build_masked(built, layers, x);
  return static_cast<bool>(built.network.masks.at(0));
}

TEST(Mask, GoesWithTheTimeAxisAndEndsWithIt) {
  EXPECT_TRUE(has_mask(R"([{"type": "conv1d", "out": 4, "kernel": 3, "padding": "same", "activation": "relu", "dropout": 0.5}])", {2, 7}));
  EXPECT_TRUE(
      has_mask(R"([{"type": "layernorm", "over": "channels"}, {"type": "residual", "layers": [{"type": "scale", "factor": 2}]}])", {2, 7}));
  EXPECT_TRUE(has_mask(
      R"([{"type": "sequential", "layers": [{"type": "activation", "activation": "tanh", "dropout": {"type": "gaussian_noise", "stddev": 0.1}}]}])",
      {2, 7}));
  EXPECT_FALSE(has_mask(R"(["global_pool"])", {2, 7}));
  for (const char* layer : {R"({"type": "sequential", "layers": ["global_pool"]})", R"("last_step")",
                            R"({"type": "rnn", "units": 7, "returns": "last"})", R"({"type": "lstm", "units": 7, "returns": "state"})",
                            R"({"type": "bidirectional", "merge": "sum", "layer": {"type": "gru", "units": 7, "returns": "last"}})"})
    EXPECT_FALSE(has_mask(std::string("[") + layer + "]", {7, 7})) << layer << ": 7 features are no 7 steps";
}

TEST(Mask, IsOneForStepsThatCount) {
  for (const FieldRole role : {FieldRole::length, FieldRole::mask}) {
    Masked built;
    build_masked(built, R"([{"type": "scale", "factor": 2}])", {2, 4}, role);
    std::mt19937_64 random(1);
    const std::vector<double> lengths = {4, 1, 0};
    std::vector<double> steps;
    for (const double n : lengths)
      for (int t = 0; t < 4; ++t) steps.push_back(t < n);
    const Tensor field = role == FieldRole::length ? Tensor::from(Shape{kBatch}, lengths) : Tensor::from(Shape{kBatch, 4}, steps);
    Interpreter interpreter(built.graph);
    interpreter.run({{"x", case_values(real(Shape{kBatch, 2, 4}), true, random)}, {"n", field.to(Dtype::i64)}});
    const Tensor mask = interpreter[built.network.masks.at(0)];
    for (int64_t i = 0; i < mask.elements(); ++i) EXPECT_EQ(mask.data<double>()[i], steps[static_cast<size_t>(i)]) << i;
  }
}

// The layer `mask` in front of an embedding leaves an index out; what a length left out before stays so.
TEST(Mask, AnIndexMayStandForNothing) {
  Graph graph;
  const BuiltNetwork network =
      Network(Json::parse(R"([{"type": "mask", "value": 0}, {"type": "embedding", "size": 9, "out": 2}])", "test"), "net.json")
          .build(graph, {{"x", {Dtype::i64, Shape{4}}}, {"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"}},
                 {.batch = 2, .training = true, .dtype = Dtype::f64});
  Interpreter interpreter(graph);
  std::map<std::string, Tensor> leaves = {{"x", Tensor::from<int64_t>(Shape{2, 4}, {3, 0, 5, 1, 0, 0, 8, 8})},
                                          {"n", Tensor::from<int64_t>(Shape{2}, {4, 3})}};
  for (const ParameterSpec& spec : network.parameters) leaves[spec.name] = Tensor(Dtype::f64, spec.shape);
  interpreter.run(leaves);
  const Tensor mask = interpreter[network.masks.at(0)];
  EXPECT_EQ(std::vector<double>(mask.data<double>(), mask.data<double>() + 8), (std::vector<double>{1, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_THROW(Network(Json::parse(R"(["mask"])", "test"), "net.json")
                   .build(graph, {{"x", {Dtype::f64, Shape{2, 3, 4}}}}, {.batch = 2, .training = true, .dtype = Dtype::f64}),
               Error);
}

TEST(Mask, RecurrentLayersGiveZeroBehindTheLength) {
  const std::vector<int64_t> lengths = {4, 1, 0};
  for (const char* layer : {R"({"type": "lstm", "units": 3})", R"({"type": "gru", "units": 3, "bidirectional": "concat"})",
                            R"({"type": "lstm", "units": 3, "peepholes": true})"}) {
    Masked built;
    build_masked(built, std::string("[") + layer + "]", {2, 4});
    std::mt19937_64 random(1);
    std::map<std::string, Tensor> leaves = {{"x", case_values(real(Shape{kBatch, 2, 4}), true, random)},
                                            {"n", Tensor::from(Shape{kBatch}, lengths)}};
    for (const ParameterSpec& spec : built.network.parameters) leaves[spec.name] = case_values(real(spec.shape, 0.1, 1), true, random);
    Interpreter interpreter(built.graph);
    interpreter.run(leaves);
    const Tensor y = interpreter[built.network.outputs.at(0)];
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t example = i / (y.elements() / kBatch), t = i % 4;
      EXPECT_EQ(y.data<double>()[i] == 0, t >= lengths[static_cast<size_t>(example)]) << layer << ", element " << i;
    }
  }
}

// The layer inside sees padded steps as examples like all others.
TEST(Mask, StatisticsOfStepsAreRefused) {
  const char* layers =
      R"([{"type": "time_distributed", "layer": {"type": "sequential", "layers": [{"type": "dense", "out": 4}, "batchnorm"]}}])";
  Masked built;
  EXPECT_THROW(build_masked(built, layers, {2, 7}), Error);
  Graph graph;
  Network(Json::parse(layers, "test"), "net.json").build(graph, {{"x", {Dtype::f64, Shape{2, 7}}}}, {.batch = kBatch});
}

// Examples of lengths 5, 2 and 1 in `steps` steps, with noise where nothing counts; outputs beyond an example's length are left out.
std::vector<double> outputs_padded_to(int64_t steps, const std::string& layers) {
  constexpr int64_t kChannels = 3;
  const std::vector<int64_t> lengths = {5, 2, 1};
  Masked built;
  build_masked(built, layers, {kChannels, steps});
  std::mt19937_64 random(3), noise(static_cast<uint64_t>(steps));
  std::map<std::string, Tensor> leaves;
  for (const ParameterSpec& spec : built.network.parameters) leaves[spec.name] = case_values(real(spec.shape), true, random);
  for (const StateSpec& spec : built.network.states) leaves[spec.name] = case_values(real(spec.shape, 0.5, 1.5), true, random);
  const Tensor values = case_values(real(Shape{kBatch, kChannels, 5}), true, random);
  Tensor x = case_values(real(Shape{kBatch, kChannels, steps}, 3, 9), true, noise);
  for (int64_t row = 0; row < kBatch * kChannels; ++row)
    for (int64_t t = 0; t < lengths[static_cast<size_t>(row / kChannels)]; ++t)
      x.data<double>()[row * steps + t] = values.data<double>()[row * 5 + t];
  leaves["x"] = x;
  leaves["n"] = Tensor::from(Shape{kBatch}, lengths);
  Interpreter interpreter(built.graph);
  interpreter.step.training = true;
  interpreter.run(leaves);
  const Value output = built.network.outputs.at(0), mask = built.network.masks.at(0);
  const Tensor got = interpreter[output];
  std::vector<double> kept;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const int64_t last = output.shape()[output.rank() - 1], example = i / (got.elements() / kBatch);
    if (!mask || interpreter[mask].data<double>()[example * last + i % last] != 0) kept.push_back(got.data<double>()[i]);
  }
  return kept;
}

void expect_padding_unseen(const std::string& layers) {
  SCOPED_TRACE(layers);
  const std::vector<double> shortest = outputs_padded_to(5, layers);
  EXPECT_FALSE(shortest.empty());
  EXPECT_EQ(outputs_padded_to(9, layers), shortest);
  EXPECT_EQ(outputs_padded_to(16, layers), shortest);
}

// The example alone, without padding and without lengths.
TEST(Mask, AStridedLayerHasTheStepsOfTheUnpaddedSequence) {
  const auto steps_of = [](const std::string& layers, int64_t length) {
    Graph graph;
    const BuiltNetwork net = Network(Json::parse(layers, "test"), "net.json")
                                 .build(graph, {{"x", {Dtype::f64, Shape{3, length}}}}, {.batch = 1, .dtype = Dtype::f64});
    return net.outputs.at(0).shape()[2];
  };
  for (const char* layer : {R"([{"type": "conv1d", "out": 2, "kernel": 3, "stride": 2, "padding": 1}])",
                            R"([{"type": "conv1d", "out": 2, "kernel": 2, "stride": 2}])",
                            R"([{"type": "maxpool1d", "kernel": 3, "stride": 1}])", R"([{"type": "avgpool1d", "kernel": 2}])"})
    for (int64_t length = 3; length <= 9; ++length) {
      Masked built;
      build_masked(built, layer, {3, 9});
      std::mt19937_64 random(1);
      std::map<std::string, Tensor> leaves = {{"x", case_values(real(Shape{kBatch, 3, 9}), true, random)}};
      for (const ParameterSpec& spec : built.network.parameters) leaves[spec.name] = case_values(real(spec.shape), true, random);
      leaves["n"] = Tensor::from(Shape{kBatch}, std::vector<int64_t>(kBatch, length));
      Interpreter interpreter(built.graph);
      interpreter.run(leaves);
      const Tensor mask = interpreter[built.network.masks.at(0)];
      double counted = 0;
      for (int64_t t = 0; t < mask.shape()[1]; ++t) counted += mask.data<double>()[t];
      EXPECT_EQ(counted, static_cast<double>(steps_of(layer, length))) << layer << ", length " << length;
    }
}

TEST(Mask, PaddingNeverChangesANumber) {
  for (const char* kind : {"average", "max", "sum", "pnorm"}) {
    expect_padding_unseen(std::string(R"([{"type": "global_pool", "kind": ")") + kind + R"("}])");
  }
  for (const char* padding : {"\"same\"", "\"causal\"", "0", "1"})
    for (const char* more : {R"("kernel": 3)", R"("kernel": 2, "dilation": 2)"})
      expect_padding_unseen(std::string(R"([{"type": "conv1d", "out": 4, "padding": )") + padding + ", " + more +
                            R"(, "activation": "tanh"},
        {"type": "conv1d", "out": 2, "kernel": 3, "padding": "same"}])");
  expect_padding_unseen(
      R"([{"type": "conv1d", "out": 4, "kernel": 3, "stride": 2, "padding": 1}, {"type": "global_pool", "kind": "average"}])");
  for (const char* kind : {"max", "sum", "pnorm", "avg"}) {
    const std::string pool = std::string(R"([{"type": ")") + kind + R"(pool1d", "kernel": 2)";
    expect_padding_unseen(pool + R"(}, {"type": "global_pool", "kind": "max"}])");
    if (std::string(kind) != "avg") expect_padding_unseen(pool + R"(, "stride": 1, "padding": 1}])");
  }
  expect_padding_unseen(R"([{"type": "layernorm", "over": "channels"}, {"type": "activation", "activation": "softmax"}])");
  for (const char* layer : {R"("lstm", "peepholes": true)", R"("lstm", "projection": 2)", R"("gru", "reset": "before")", R"("gru")",
                            R"("rnn", "layer_norm": true)", R"("lstm", "layers": 2, "bidirectional": "concat")",
                            R"("gru", "bidirectional": "sum")", R"("rnn", "reverse": true)"})
    for (const char* returns : {"all", "last"})
      expect_padding_unseen(std::string(R"([{"units": 3, "returns": ")") + returns + R"(", "type": )" + layer + "}]");
  for (const char* layer :
       {R"({"type": "last_step"})", R"({"type": "reverse"})", R"({"type": "bidirectional", "layer": {"type": "lstm", "units": 2}})",
        R"({"type": "time_distributed", "layer": {"type": "dense", "out": 4}})"})
    expect_padding_unseen(std::string("[") + layer + R"(, {"type": "activation", "activation": "tanh"}])");
  expect_padding_unseen(R"([{"type": "lstm", "units": 4}, {"type": "dense", "over": "steps", "out": 2}])");
}

}  // namespace
}  // namespace perigee
