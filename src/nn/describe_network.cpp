#include "src/nn/describe_network.h"

#include <string>

#include "src/graph/op.h"

namespace perigee {
namespace {

double node_flops(const Graph& graph, const Node& node) {
  if (node.inputs.empty()) return 0;
  const OperandTypes types(graph, node);
  if (node.op->flops) return node.op->flops(types.call());
  return node.op->alias ? 0 : static_cast<double>(node.outputs[0].shape.elements());
}

struct Sum {
  int64_t parameters = 0;
  double activation_bytes = 0, flops = 0;
};

Sum sum_of(const Graph& graph, const LayerReport& layer) {
  Sum sum{.parameters = layer.parameters};
  for (int i = layer.first_node; i < layer.last_node; ++i) {
    const Node& node = graph.nodes()[static_cast<size_t>(i)];
    sum.flops += node_flops(graph, node);
    // Backward needs these later: the outputs of every op that is no window and no leaf.
    if (node.inputs.empty() || node.op->alias) continue;
    for (const Type& type : node.outputs)
      sum.activation_bytes += static_cast<double>(type.shape.elements()) * static_cast<double>(dtype_bytes(type.dtype));
  }
  return sum;
}

void tell(const Sum& sum, Json* told) {
  told->set("parameters", sum.parameters);
  told->set("activation_bytes", sum.activation_bytes);
  told->set("flops", sum.flops);
}

}  // namespace

Json describe_network(const Network& network, const std::vector<NetworkInput>& inputs) {
  Graph graph;
  const BuiltNetwork built = network.build(graph, inputs, {.batch = 1, .training = true});
  Json told = Json::object(), given = Json::array(), layers = Json::array();
  for (const NetworkInput& input : inputs) given.push(Json::Object{{"name", input.name}, {"shape", input.type.shape.text()}});
  Sum total;
  for (const LayerReport& layer : built.layers) {
    std::string shape;
    for (const Shape& output : layer.outputs) shape += (shape.empty() ? "" : ", ") + output.text();
    Json row = Json(Json::Object{{"name", layer.name}, {"type", layer.type}, {"shape", shape}});
    const Sum sum = sum_of(graph, layer);
    tell(sum, &row);
    layers.push(std::move(row));
    total.parameters += sum.parameters, total.activation_bytes += sum.activation_bytes, total.flops += sum.flops;
  }
  told.set("inputs", std::move(given));
  told.set("layers", std::move(layers));
  tell(total, &told);
  return told;
}

}  // namespace perigee
