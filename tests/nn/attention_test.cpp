// Layers that attend: what padding may not change, what their options make of the ops, and formulas.
#include <gtest/gtest.h>

#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

using Arrays = std::map<std::string, Tensor>;

// Two examples of 5 and 3 steps in `steps` steps, with noise where nothing counts: what counts of the outputs, and the parameters' gradients.
std::vector<double> padded_to(int64_t steps, const std::string& layer) {
  constexpr int64_t kBatch = 2, kFeatures = 4, kLengths[] = {5, 3};
  std::mt19937_64 random(3), noise(static_cast<uint64_t>(steps));
  Graph graph;
  const std::vector<NetworkInput> inputs = {{"x", {Dtype::f64, Shape{kFeatures, steps}}},
                                            {"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"}};
  const BuiltNetwork network =
      Network(Json::parse(layer, "test"), "net.json").build(graph, inputs, {.batch = kBatch, .training = true, .dtype = Dtype::f64});
  Arrays leaves = {{"n", Tensor::from(Shape{kBatch}, std::vector<double>{5, 3}).to(Dtype::i64)}};
  for (const ParameterSpec& spec : network.parameters) leaves[spec.name] = case_values(real(spec.shape), true, random);
  const Tensor values = case_values(real(Shape{kBatch, kFeatures, 5}), true, random);
  const Value y = network.outputs.at(0);
  const int64_t kept = y.shape()[2];
  const Tensor slopes = case_values(real(Shape{kBatch, y.shape()[1], 5}), true, random);
  Tensor x = case_values(real(Shape{kBatch, kFeatures, steps}), true, noise), gy(Dtype::f64, y.shape());
  for (int64_t row = 0; row < kBatch * kFeatures; ++row)
    std::copy_n(values.data<double>() + row * 5, kLengths[row / kFeatures], x.data<double>() + row * steps);
  for (int64_t row = 0; row < kBatch * y.shape()[1]; ++row)
    for (int64_t t = 0; t < kept; ++t)
      gy.data<double>()[row * kept + t] =
          t < (kept == steps ? kLengths[row / y.shape()[1]] : kept) ? slopes.data<double>()[row * 5 + t] : 0;
  leaves["x"] = x, leaves["gy"] = gy;
  const Value root = reduce_sum(y * graph.input("gy", y.type()), {0, 1, 2});
  std::vector<Value> targets;
  for (const ParameterSpec& spec : network.parameters) targets.push_back(graph.parameter(spec.name, {Dtype::f64, spec.shape}));
  const std::vector<Value> flows = gradients(graph, root, graph.constant(1, root.type()), targets);
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  std::vector<double> results = {*interpreter[root].data<double>()};
  for (int64_t row = 0; row < kBatch * y.shape()[1] && kept == steps; ++row)
    for (int64_t t = 0; t < steps; ++t) {
      const double value = interpreter[y].data<double>()[row * steps + t];
      if (t < kLengths[row / y.shape()[1]]) results.push_back(value);
      else EXPECT_EQ(value, 0) << layer << ": step " << t << " does not count";
    }
  for (const Value& flow : flows)
    for (int64_t i = 0; flow && i < interpreter[flow].elements(); ++i) results.push_back(interpreter[flow].data<double>()[i]);
  return results;
}

TEST(Attention, PaddingChangesNoNumber) {
  for (const std::string layer :
       {R"({"type": "attention", "heads": 2, "bias": true})", R"({"type": "attention", "heads": 2, "causal": true, "positions": "alibi"})",
        R"({"type": "attention", "project": false})", R"({"type": "transformer", "layers": 2, "heads": 2, "positions": "rotary"})",
        R"({"type": "transformer", "norm": "post", "heads": 4, "kv_heads": 2, "rms": true, "activation": "swish", "gated": true})",
        R"({"type": "learned_attention", "queries": 2, "heads": 2})", R"({"type": "recurrent_attention", "out": 4, "heads": 2})"}) {
    const std::vector<double> tight = padded_to(5, "[" + layer + "]"), loose = padded_to(9, "[" + layer + "]");
    ASSERT_EQ(tight.size(), loose.size()) << layer;
    for (size_t i = 0; i < tight.size(); ++i)
      ASSERT_NEAR(tight[i], loose[i], 1e-12 * std::max(1.0, std::abs(tight[i]))) << layer << ", number " << i;
  }
}

// The attributes that an op is told; its own cases say what it makes of them.
Json attributes_of(const char* op, const std::string& options, bool training = true) {
  Graph graph;
  Network(Json::parse(R"([{"type": "transformer", "heads": 2, )" + options + "}]", "test"), "net.json")
      .build(graph, {{"x", {Dtype::f32, Shape{8, 5}}}}, {.batch = 2, .training = training});
  for (const Node& node : graph.nodes())
    if (std::string_view(node.op->name) == op) return node.attrs;
  return {};
}

TEST(Attention, OptionsOfLayersReachTheOps) {
  const Json attention =
      attributes_of("attention", R"("causal": true, "window": 3, "positions": "alibi", "kv_heads": 1, "attention_dropout": 0.25)");
  EXPECT_EQ(*attention.find("causal"), Json("upper_left"));
  EXPECT_EQ(*attention.find("window"), Json(3));
  EXPECT_EQ(*attention.find("alibi"), Json(true));
  EXPECT_EQ(*attention.find("kv_heads"), Json(1));
  EXPECT_EQ(*attention.find("dropout"), Json(0.25));
  EXPECT_EQ(attributes_of("attention", R"("attention_dropout": 0.25)", false), Json(Json::Object{{"kv_heads", Json(2)}}));
  const Json rotary = attributes_of(
      "rotary",
      R"("positions": "rotary", "kv_heads": 1, "head_size": 6, "rotary_theta": 500, "rotary_fraction": 0.9, "rotary_interleaved": true)");
  EXPECT_EQ(*rotary.find("heads"), Json(3)) << "those of queries and keys, not of values";
  EXPECT_EQ(*rotary.find("width"), Json(4)) << "whole pairs";
  EXPECT_EQ(*rotary.find("theta"), Json(500.0));
  EXPECT_EQ(*rotary.find("interleaved"), Json(true));
}

// Bahdanau et al. 2015: scores w tanh(Q q + K k), with one feature everywhere.
TEST(Attention, AdditiveScoresAreBahdanaus) {
  Graph graph;
  const Json layers =
      Json::parse(R"({"type": "graph", "inputs": ["q", "k"], "nodes": [{"name": "a", "layer": {"type": "additive_attention"},
                                      "inputs": ["q", "k"]}], "outputs": ["a"]})",
                  "test");
  const BuiltNetwork network =
      Network(layers, "net.json")
          .build(graph, {{"q", {Dtype::f64, Shape{1, 2}}}, {"k", {Dtype::f64, Shape{1, 3}}}}, {.batch = 1, .dtype = Dtype::f64});
  const std::vector<double> q = {0.4, -1.1}, k = {0.3, 2, -0.7};
  Interpreter interpreter(graph);
  interpreter.run({{"q", Tensor::from(Shape{1, 1, 2}, q)},
                   {"k", Tensor::from(Shape{1, 1, 3}, k)},
                   {"a.q_weight", Tensor::from(Shape{1, 1}, std::vector<double>{0.6})},
                   {"a.k_weight", Tensor::from(Shape{1, 1}, std::vector<double>{-1.3})},
                   {"a.weight", Tensor::from(Shape{1, 1}, std::vector<double>{1.7})}});
  for (size_t i = 0; i < 2; ++i) {
    double value = 0, total = 0;
    for (const double key : k) {
      const double weight = std::exp(1.7 * std::tanh(0.6 * q[i] - 1.3 * key));
      value += weight * key, total += weight;
    }
    EXPECT_NEAR(interpreter[network.outputs.at(0)].data<double>()[i], value / total, 1e-14);
  }
}

TEST(Attention, AQueryWithoutAnyKeyGivesZero) {
  Graph graph;
  const Value q = graph.input("q", {Dtype::f64, Shape{1, 2, 1, 2}}), mask = graph.input("m", {Dtype::f64, Shape{1, 2}});
  const Value operands[] = {q, q, q, mask};
  const std::vector<Value> all = graph.apply_all("attention", operands);
  const Value root = reduce_sum(all[0], {0, 1, 2, 3});
  const std::vector<Value> flows = gradients(graph, root, graph.constant(1, root.type()), std::vector<Value>{q});
  Interpreter interpreter(graph);
  interpreter.run({{"q", Tensor::from(Shape{1, 2, 1, 2}, std::vector<double>{1, 2, 3, 4})},
                   {"m", Tensor::from(Shape{1, 2}, std::vector<double>{0, 0})}});
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(interpreter[all[0]].data<double>()[i], 0);
    EXPECT_EQ(interpreter[flows[0]].data<double>()[i], 0);
  }
}

}  // namespace
}  // namespace perigee
