#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr Option kNodeOptions[] = {{"name", "string", "by type and count", "unique in the graph"},
                                   {"layer", "layer", nullptr, "what it is"},
                                   {"inputs", "list of names", nullptr, "nodes or inputs: \"a\", or \"a:1\" for its second result"}};
constexpr Schema kNode{.options = kNodeOptions};
constexpr Option kGraphOptions[] = {{"inputs", "list of names", nullptr, "what it calls its inputs"},
                                    {"nodes", "list of {name, layer, inputs}", nullptr, "in any order", {}, {}, nullptr, &kNode},
                                    {"outputs", "list of names", nullptr, "nodes whose results leave"},
                                    {"defaults", "table of options", "none", "for what these layers leave out"}};

std::vector<Value> build_graph_layer(LayerContext& context, std::span<const Value> inputs) {
  return context.network(context.options().json(), "", inputs);
}

}  // namespace

extern const LayerDef layer_graph;
const LayerDef layer_graph{
    .name = "graph",
    .doc = "A network of named nodes, as one layer; its inputs are taken in the order in which it names them.",
    .example =
        R"({"type": "graph", "inputs": ["a", "b"], "nodes": [{"name": "h", "layer": {"type": "dense", "out": 3}, "inputs": ["a"]}, {"name": "y", "layer": "add", "inputs": ["h", "b"]}], "outputs": ["y"]})",
    .example_input = "[[2], [3]]",
    .schema = layer_schema(kGraphOptions),
    .max_inputs = -1,
    .any_dtype = true,
    .build = build_graph_layer,
    .step_use = each_step};

}  // namespace perigee
