// A layer's worked example as it is trained: its forward pass, the mean square of its outputs and the gradients of parameters and inputs.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "src/graph/passes/passes.h"
#include "src/graph/plan.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {

inline constexpr int64_t kTrainedBatch = 6;

inline std::vector<Shape> example_shapes(const LayerDef& layer) {
  const Json json = Json::parse(layer.example_input, layer.name);
  std::vector<Json> lists = json.as_array();
  if (lists.empty() || lists[0].is_int()) lists = {json};
  std::vector<Shape> shapes;
  for (const Json& list : lists) {
    std::vector<int64_t> dims;
    for (const Json& dim : list.as_array()) dims.push_back(dim.as_int());
    shapes.emplace_back(dims);
  }
  return shapes;
}

struct TrainedLayer {
  Graph graph;
  std::vector<std::string> external;
};

// The layer's forward pass, the mean square of its outputs, and the gradients of parameters. With `fused`, as Model does it.
inline void build_trained(const LayerDef& layer, bool fused, TrainedLayer& trained) {
  const bool indices = std::string(layer.name) == "embedding";
  std::vector<NetworkInput> inputs;
  for (const Shape& shape : example_shapes(layer))
    inputs.push_back({"x" + std::to_string(inputs.size()), {indices ? Dtype::i64 : Dtype::f32, shape}});
  Graph forward;
  const Network network(Json(Json::Array{Json::parse(layer.example, layer.name)}), "example");
  const BuiltNetwork built = network.build(forward, inputs, {.batch = kTrainedBatch, .training = true});
  Value total;
  for (size_t i = 0; i < built.outputs.size(); ++i) {
    forward.output("output" + std::to_string(i), built.outputs[i]);
    std::vector<int64_t> axes;
    for (int d = 0; d < built.outputs[i].rank(); ++d) axes.push_back(d);
    const Value part = reduce_sum(square(built.outputs[i] - 0.3), axes);
    total = total ? total + part : part;
  }
  forward.output("total", total);
  trained.graph = fused ? fuse_forward(forward) : forward;
  Graph& graph = trained.graph;
  Value root;
  for (const NamedValue& output : graph.outputs())
    if (output.name == "total") root = Value(&graph, output.value);
  std::vector<Value> targets;
  std::vector<std::string> names;
  for (const Leaf& leaf : graph.leaves())
    if (leaf.kind != LeafKind::state && graph.type(leaf.value).dtype == Dtype::f32) {
      targets.push_back(Value(&graph, leaf.value));
      names.push_back((leaf.kind == LeafKind::parameter ? "grad:" : "input:") + leaf.name);
    }
  const std::vector<Value> flows = gradients(graph, root, ones_like(root), targets);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (!flows[i]) continue;
    graph.output(names[i], flows[i]);
    if (names[i].starts_with("grad:")) trained.external.push_back(names[i]);
  }
  if (fused) graph = fuse_backward(graph);
}

// `run` (graph and leaves to outputs by name) computes from the fused graph what the interpreter computes from the plain one.
template <class Run>
void expect_as_interpreted(const LayerDef& layer, Run run) {
  TrainedLayer plain, fused;
  build_trained(layer, false, plain);
  build_trained(layer, true, fused);
  std::mt19937_64 random(9);
  std::map<std::string, Tensor> leaves;
  for (const Leaf& leaf : plain.graph.leaves()) {
    const Type& type = plain.graph.type(leaf.value);
    const bool indices = type.dtype == Dtype::i64;
    leaves[leaf.name] =
        case_values(indices ? index(type.shape, 3) : real(type.shape, leaf.kind == LeafKind::state ? 0.5 : -2, 2), false, random);
  }
  Interpreter truth(plain.graph);
  truth.step.training = true;
  truth.run(leaves);
  const std::map<std::string, Tensor> results = run(fused, leaves);
  for (const NamedValue& output : plain.graph.outputs()) {
    const Tensor &expected = truth[Value(&plain.graph, output.value)], &got = results.at(output.name);
    ASSERT_EQ(got.shape(), expected.shape());
    double scale = 1e-2;  // a gradient that is zero but for rounding
    for (int64_t i = 0; i < got.elements(); ++i) scale = std::max(scale, std::abs(double{expected.data<float>()[i]}));
    for (int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.data<float>()[i], expected.data<float>()[i], 2e-4 * scale) << output.name << " element " << i;
  }
}

}  // namespace perigee
