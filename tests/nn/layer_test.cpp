// Every layer and activation, because it is there: its worked example builds, its gradients agree with finite differences in
// float64, its options are documented.
#include <gtest/gtest.h>

#include <set>

#include "src/nn/activations.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"
#include "tests/nn/trained_layer.h"

namespace perigee {
namespace {

// Layers that look things up take small integers.
bool takes_indices(const LayerDef& layer) { return std::string(layer.name) == "embedding"; }

struct Built {
  Graph graph;
  BuiltNetwork network;
  std::map<std::string, Tensor> leaves;
  std::vector<std::string> names;
  std::vector<Value> targets;
};

void build_layer(Built& built, const Json& layer, const std::vector<Shape>& shapes, bool indices, bool training, uint64_t seed) {
  constexpr int64_t kBatch = 4;
  std::mt19937_64 random(seed);
  std::vector<NetworkInput> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back({"x" + std::to_string(i), {indices ? Dtype::i64 : Dtype::f64, shapes[i]}});
  Json description = Json::object();
  description.set("type", "sequential");
  description.set("layers", Json(Json::Array{layer}));
  built.network = Network(description, "example").build(built.graph, inputs, {.batch = kBatch, .training = training, .dtype = Dtype::f64});
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Value x = built.network.inputs[i];
    built.leaves[inputs[i].name] = case_values(indices ? index(x.shape(), 3) : real(x.shape()), true, random);
    if (indices) continue;
    built.names.push_back(inputs[i].name);
    built.targets.push_back(x);
  }
  for (const ParameterSpec& spec : built.network.parameters) {
    built.leaves[spec.name] = case_values(real(spec.shape), true, random);
    built.names.push_back(spec.name);
    built.targets.push_back(built.graph.parameter(spec.name, {Dtype::f64, spec.shape}));
  }
  for (const StateSpec& spec : built.network.states) built.leaves[spec.name] = case_values(real(spec.shape, 0.5, 1.5), true, random);
}

void check(const Json& layer, const std::vector<Shape>& shapes, bool indices, bool training) {
  Built built;
  build_layer(built, layer, shapes, indices, training, 5);
  std::mt19937_64 random(7);
  Value root;
  for (size_t i = 0; i < built.network.outputs.size(); ++i) {
    const Value part = weighted_total(built.graph, built.network.outputs[i], "weights" + std::to_string(i), built.leaves, random);
    root = root ? root + part : part;
  }
  // The slope of a contrastive divergence is that of no function: rbm has its own tests.
  if (*layer.find("type") != Json("rbm"))
    for (const Value& term : built.network.losses) root = root + reduce_sum(term, {0});
  check_gradients(built.graph, root, built.names, built.targets, built.leaves);
}

TEST(Layer, GradientsOfEveryExampleAgreeWithFiniteDifferences) {
  for (const LayerDef* layer : all_layers())
    for (const bool training : {true, false}) {
      SCOPED_TRACE(std::string(layer->name) + (training ? ", training" : ", inference"));
      ASSERT_NE(layer->example, nullptr);
      try {
        check(Json::parse(layer->example, layer->name), example_shapes(*layer), takes_indices(*layer), training);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
}

TEST(Layer, EveryLayerIsDocumented) {
  std::set<std::string> names;
  for (const LayerDef* layer : all_layers()) {
    SCOPED_TRACE(layer->name);
    EXPECT_TRUE(names.insert(layer->name).second) << "two layers have this name";
    EXPECT_GT(std::string(layer->doc).size(), 10u);
    std::set<std::string> options;
    for (const Option& option : layer->schema.options) {
      options.insert(option.name);
      EXPECT_NE(option.doc, nullptr) << option.name;
    }
    for (const char* positional : layer->schema.positional) EXPECT_TRUE(options.contains(positional)) << positional;
    for (const Option& option : common_layer_schema.options)
      EXPECT_FALSE(options.contains(option.name)) << option.name << " hides a common option";
  }
}

TEST(Activation, GradientsAgreeWithFiniteDifferences) {
  for (const ActivationDef& activation : all_activations())
    for (const bool training : {true, false}) {
      SCOPED_TRACE(activation.name);
      Json layer = Json::object();
      layer.set("type", "dense");
      layer.set("out", 6);
      layer.set("activation", activation.name);
      // The rational tanh has a jump in its second derivative at 0, and nothing else is rough away from a kink.
      check(layer, {Shape{5}}, false, training);
    }
}

}  // namespace
}  // namespace perigee
