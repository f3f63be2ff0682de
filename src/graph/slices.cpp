// The slicing analysis, and which instruction set the host has.
#include "src/graph/plan.h"

namespace perigee {

SliceAnalysis analyze_slices(const Graph& graph) {
  SliceAnalysis result;
  const auto blame = [&](const Node& node, const char* why) {
    if (!result.sliceable) return;
    result.sliceable = false;
    result.reason = (node.scope.empty() ? "" : node.scope + ": ") + "op '" + node.op->name + "' " + why;
  };
  for (const Node& node : graph.nodes()) {
    std::vector<Sliced> inputs;
    bool mixed = false;
    for (const ValueId& id : node.inputs) {
      inputs.push_back(id.node < 0 ? Sliced::whole : result.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]);
      if (inputs.back() == Sliced::mixed) mixed = true;
    }
    const OperandTypes types(graph, node);
    const Sliced out = mixed ? Sliced::mixed : node.op->sliced(types.call(), inputs);
    if (out == Sliced::mixed && !mixed) blame(node, "mixes the examples of a batch");
    if (node.op->collective) result.collective = true;
    if (node.op->whole_slice) result.whole_slice = true;
    result.values.emplace_back(node.outputs.size(), out);
    if (!mixed && node.op->sliced_output)
      for (size_t o = 0; o < node.outputs.size(); ++o)
        result.values.back()[o] = node.op->sliced_output(types.call(), inputs, static_cast<int>(o));
  }
  const auto of = [&](ValueId id) { return result.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; };
  for (const Assignment& assignment : graph.assignments())
    if (of(assignment.value) != Sliced::whole) blame(graph.node(assignment.value), "assigns a state from part of the batch");
  return result;
}

}  // namespace perigee
