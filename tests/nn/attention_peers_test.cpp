// Attention with options that few models have, beside PyTorch, Keras and transformers (attention_reference.py): outputs and gradients in float64,
// outputs in f32.
#include "src/core/error.h"
#include "tests/core/refusal.h"
#include "tests/nn/attention_case.h"
#include "tests/nn/attention_reference.h"

namespace perigee {
namespace {

using namespace attention_case;

// The formula of values() in attention_reference.py.
Tensor formula(const Shape& shape, int64_t seed, double low = -1, double high = 1) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < shape.elements(); ++i)
    numbers.push_back(low + (high - low) * static_cast<double>(((i + 1) * 2654435761 + seed * 40503) % 65536) / 65536);
  return Tensor::from(shape, numbers);
}

template <size_t n>
Tensor expected(const double (&numbers)[n], const Shape& shape) {
  return Tensor::from(shape, std::vector<double>(numbers, numbers + n));
}

template <size_t n>
Tensor expected_steps(const double (&numbers)[n], const Shape& shape) {
  return features_first(expected(numbers, shape));
}

Tensor padded_mask() { return Tensor::from(Shape{2, 4}, std::vector<double>{1, 1, 1, 1, 1, 1, 0, 0}); }

std::string graph_of(const std::string& layer, const std::string& inputs) {
  return R"({"type": "graph", "inputs": [)" + inputs + R"(], "nodes": [{"name": "a", "layer": )" + layer + R"(, "inputs": [)" + inputs +
         R"(]}], "outputs": ["a"]})";
}

// Weights of PyTorch's layer of 4 features and 2 heads; the keys come last, since the mask is of the last input.
Case of_pytorch(const std::string& options, const std::string& inputs) {
  Case c{.layers = graph_of(R"({"type": "attention", "heads": 2, "bias": true, "out": 4, "head_size": 2)" + options + "}", inputs)};
  c.inputs = {{"q", features_first(formula({2, 3, 4}, 5))},
              {"v", features_first(formula({2, 4, 4}, 7))},
              {"k", features_first(formula({2, 4, 4}, 6))}};
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = std::string("a.") + "qkv"[i];
    c.parameters.push_back({name + "_weight", part(formula({12, 4}, 1), i, 3)});
    c.parameters.push_back({name + "_bias", part(formula({12}, 2), i, 3)});
  }
  c.parameters.push_back({"a.out_weight", formula({4, 4}, 3)});
  c.parameters.push_back({"a.out_bias", formula({4}, 4)});
  c.gy = features_first(formula({2, 3, 4}, 9));
  return c;
}

TEST(AttentionPeers, NumbersAddedToScoresArePyTorchs) {
  Case c = of_pytorch("", R"("q", "k", "v", "b")");
  c.inputs.insert(c.inputs.begin(), {"b", formula({2, 2, 3, 4}, 8, -2, 2)});
  c.y = expected_steps(kFloatMask, {2, 3, 4});
  c.gradients = {{"q", expected_steps(kFloatMaskDQ, {2, 3, 4})},
                 {"k", expected_steps(kFloatMaskDK, {2, 4, 4})},
                 {"v", expected_steps(kFloatMaskDV, {2, 4, 4})},
                 {"b", expected(kFloatMaskDBias, {2, 2, 3, 4})},
                 {"a.out_weight", expected(kFloatMaskDOut, {4, 4})}};
  check(c);
}

TEST(AttentionPeers, MoreKeysArePyTorchs) {
  Case c = of_pytorch(R"(, "more_keys": "both")", R"("q", "k", "v")");
  c.parameters.push_back({"a.more_key", formula({1, 4}, 10)});
  c.parameters.push_back({"a.more_value", formula({1, 4}, 11)});
  c.mask = padded_mask();
  c.y = expected_steps(kMoreKeys, {2, 3, 4});
  c.gradients = {{"q", expected_steps(kMoreKeysDQ, {2, 3, 4})},       {"k", expected_steps(kMoreKeysDK, {2, 4, 4})},
                 {"v", expected_steps(kMoreKeysDV, {2, 4, 4})},       {"a.out_weight", expected(kMoreKeysDOut, {4, 4})},
                 {"a.more_key", expected(kMoreKeysDMoreKey, {1, 4})}, {"a.more_value", expected(kMoreKeysDMoreValue, {1, 4})}};
  check(c);
}

// Keras has kernels [features, heads, size].
Tensor kernel(int64_t heads, int64_t size, int64_t seed) { return transposed(formula({4, heads * size}, seed)); }

constexpr double kOfKeras = 1e-6;  // Keras computes scores in single precision

TEST(AttentionPeers, ValuesOfAnotherSizeAreKeras) {
  Case c{.layers = graph_of(R"({"type": "attention", "heads": 2, "head_size": 3, "value_size": 1, "bias": true})", R"("q", "k")")};
  c.inputs = {{"q", features_first(formula({2, 3, 4}, 5))}, {"k", features_first(formula({2, 4, 4}, 6))}};
  c.mask = padded_mask();
  const Tensor out = transposed(formula({2, 4}, 26));
  c.parameters = {{"a.q_weight", kernel(2, 3, 20)},
                  {"a.q_bias", formula({6}, 21)},
                  {"a.k_weight", kernel(2, 3, 22)},
                  {"a.k_bias", formula({6}, 23)},
                  {"a.v_weight", kernel(2, 1, 24)},
                  {"a.v_bias", formula({2}, 25)},
                  {"a.out_weight", out},
                  {"a.out_bias", formula({4}, 27)}};
  c.y = expected_steps(kValueSize, {2, 3, 4});
  c.tolerance = kOfKeras;
  check(c);

  Case self{.layers = R"([{"type": "attention", "name": "a", "heads": 2, "head_size": 3, "value_size": 1, "bias": true, "causal": true}])"};
  self.inputs = {c.inputs[0]};
  std::vector<double> weight, bias;
  for (const int i : {0, 2, 4})
    for (const int64_t k : {0, 1}) {
      const Tensor from = c.parameters[static_cast<size_t>(i + k)].second;
      (k == 0 ? weight : bias).insert((k == 0 ? weight : bias).end(), from.data<double>(), from.data<double>() + from.elements());
    }
  self.parameters = {{"a.in_weight", Tensor::from(Shape{14, 4}, weight)},
                     {"a.in_bias", Tensor::from(Shape{14}, bias)},
                     {"a.out_weight", out},
                     {"a.out_bias", formula({4}, 27)}};
  self.y = expected_steps(kValueSizeCausal, {2, 3, 4});
  self.tolerance = kOfKeras;
  check(self);
}

TEST(AttentionPeers, LuongsAttentionIsKeras) {
  Case c{.layers = graph_of(R"({"type": "attention", "project": false, "scale": 1, "causal": true, "align": "first"})", R"("q", "k")")};
  c.inputs = {{"q", features_first(formula({2, 3, 4}, 5))}, {"k", features_first(formula({2, 4, 4}, 6))}};
  c.mask = padded_mask();
  c.y = expected_steps(kLuongCausal, {2, 3, 4});
  c.tolerance = kOfKeras;
  check(c);
  // With the scores as numbers of their own, to which nothing is added.
  c.layers = graph_of(R"({"type": "attention", "project": false, "scale": 1, "causal": true, "align": "first"})", R"("q", "k", "k", "b")");
  c.inputs.insert(c.inputs.begin(), {"b", Tensor::from(Shape{2, 3, 4}, std::vector<double>(24, 0.0))});
  check(c);
  // The mask as numbers.
  std::vector<double> numbers(24, 0.0);
  for (size_t i = 12; i < 24; ++i)
    if (i % 4 >= 2) numbers[i] = -1e9;
  c.mask = Tensor();
  c.inputs[0].second = Tensor::from(Shape{2, 3, 4}, numbers);
  check(c);
}

TEST(AttentionPeers, GroupsOfQueriesAreKeras) {
  for (const bool added : {false, true}) {
    Case c{.layers = graph_of(R"({"type": "attention", "heads": 4, "kv_heads": 2, "head_size": 3, "out": 4, "bias": true})",
                              added ? R"("q", "k", "k", "b")" : R"("q", "k")")};
    c.inputs = {{"q", features_first(formula({2, 3, 4}, 5))}, {"k", features_first(formula({2, 4, 4}, 6))}};
    if (added) c.inputs.push_back({"b", Tensor::from(Shape{2, 3, 4}, std::vector<double>(24, 1.0))});
    c.parameters = {{"a.q_weight", kernel(4, 3, 30)},
                    {"a.q_bias", formula({12}, 31)},
                    {"a.k_weight", kernel(2, 3, 32)},
                    {"a.k_bias", formula({6}, 33)},
                    {"a.v_weight", kernel(2, 3, 34)},
                    {"a.v_bias", formula({6}, 35)},
                    {"a.out_weight", transposed(formula({12, 4}, 36))},
                    {"a.out_bias", formula({4}, 37)}};
    c.y = expected_steps(kGroupQuery, {2, 3, 4});
    c.tolerance = kOfKeras;
    check(c);
  }
}

Case side_by_side(const std::string& options) {
  Case c{
      .layers =
          R"([{"type": "transformer", "name": "t", "heads": 2, "hidden": 6, "causal": true, "positions": "rotary", "rotary_fraction": 0.5, )" +
          options + "}]"};
  c.inputs = {{"x", features_first(formula({2, 5, 8}, 40))}};
  c.parameters = {{"t.block1.norm1_weight", formula({8}, 42, 0.5, 1.5)},
                  {"t.block1.norm1_bias", formula({8}, 43)},
                  {"t.block1.attention_in_weight", formula({24, 8}, 41)},
                  {"t.block1.attention_out_weight", formula({8, 8}, 48)},
                  {"t.block1.up_weight", formula({6, 8}, 49)},
                  {"t.block1.up_bias", formula({6}, 50)},
                  {"t.block1.down_weight", formula({8, 6}, 51)},
                  {"t.block1.down_bias", formula({8}, 52)},
                  {"t.norm_weight", formula({8}, 46, 0.5, 1.5)},
                  {"t.norm_bias", formula({8}, 47)}};
  return c;
}

TEST(AttentionPeers, BlocksWithBothPartsBehindOneNormAreGptJs) {
  Case c = side_by_side(R"("parallel": "one_norm", "rotary_interleaved": true, "activation": {"type": "gelu", "approximate": "tanh"})");
  for (const auto& [name, size] : {std::pair{"in", 24}, {"out", 8}})
    c.parameters.push_back({std::string("t.block1.attention_") + name + "_bias",
                            Tensor::from(Shape{size}, std::vector<double>(static_cast<size_t>(size), 0.0))});
  c.y = expected_steps(kGptJ, {2, 5, 8});
  c.tolerance = 1e-7;  // its sines are of single precision
  check(c);
}

TEST(AttentionPeers, BlocksWithBothPartsSideBySideAreGptNeoXs) {
  Case c = side_by_side(R"("parallel": "two_norms")");
  c.parameters.push_back({"t.block1.attention_in_bias", formula({24}, 53)});
  c.parameters.push_back({"t.block1.attention_out_bias", formula({8}, 54)});
  c.parameters.push_back({"t.block1.norm2_weight", formula({8}, 44, 0.5, 1.5)});
  c.parameters.push_back({"t.block1.norm2_bias", formula({8}, 45)});
  c.y = expected_steps(kGptNeoX, {2, 5, 8});
  c.tolerance = 1e-7;
  check(c);
}

TEST(AttentionPeers, WhatDoesNotGoTogetherIsRefused) {
  const auto said = [](const std::string& layer, const std::string& inputs) {
    Graph graph;
    std::vector<NetworkInput> given{{"q", {Dtype::f64, Shape{4, 3}}}, {"k", {Dtype::f64, Shape{4, 5}}}, {"b", {Dtype::f64, Shape{3, 4}}}};
    return refusal(
        [&] { Network(Json::parse(graph_of(layer, inputs), "test"), "net").build(graph, given, {.batch = 2, .dtype = Dtype::f64}); });
  };
  EXPECT_HAS(said(R"({"type": "attention"})", R"("q", "k", "k", "b")"), "cannot add these numbers to the scores");
  EXPECT_HAS(said(R"({"type": "attention", "window": 2, "more_keys": "zero"})", R"("q")"),
             "is not there where numbers are added to scores or keys to the steps'");
  EXPECT_HAS(said(R"({"type": "attention", "align": "first"})", R"("q")"), "'align' has no effect; got causal = false");
  EXPECT_HAS(said(R"({"type": "transformer", "parallel": "one_norm", "norm": "post"})", R"("q")"), "'parallel' goes with a norm in front");
  EXPECT_HAS(said(R"({"type": "transformer", "parallel": "one_norm", "cross": true})", R"("q", "k")"),
             "'parallel' has no place for a memory");
}

}  // namespace
}  // namespace perigee
