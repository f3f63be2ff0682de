#include "src/model/steps/session_graph.h"

#include <algorithm>

#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

enum class Depends : uint8_t { nothing, fixed, step };  // on parameters and constants alone; on fixed inputs; on what is read step by step

std::vector<Depends> dependence(const Graph& graph, const std::set<std::string>& fixed) {
  std::vector<Depends> depends;
  for (const Node& node : graph.nodes()) {
    Depends own = Depends::nothing;
    if (node.op->leaf == LeafOp::input) own = fixed.contains(attr_string(node, "name")) ? Depends::fixed : Depends::step;
    for (const ValueId& id : node.inputs)
      if (id.node >= 0) own = std::max(own, depends[static_cast<size_t>(id.node)]);
    depends.push_back(own);
  }
  return depends;
}

}  // namespace

std::string kept_leaf(size_t i) { return "@kept:" + std::to_string(i); }

SessionGraphs cut_session(const Graph& graph, const std::set<std::string>& fixed) {
  const std::vector<Depends> depends = dependence(graph, fixed);
  const auto of = [&](const ValueId& id) { return id.node < 0 ? Depends::nothing : depends[static_cast<size_t>(id.node)]; };
  std::vector<ValueId> border;  // fixed values that a step reads
  const auto cross = [&](const ValueId& id) {
    if (of(id) == Depends::fixed && std::ranges::find(border, id) == border.end()) border.push_back(id);
  };
  for (const Node& node : graph.nodes())
    if (depends[static_cast<size_t>(node.id)] == Depends::step) std::ranges::for_each(node.inputs, cross);
  for (const NamedValue& output : graph.outputs()) cross(output.value);

  Graph marked = Graph(graph);  // its outputs are those of both parts
  Rewrite once(marked), step(graph);
  std::vector<Type> kept;
  for (const Node& node : graph.nodes()) {
    once.to().set_scope(node.scope), step.to().set_scope(node.scope);
    const Depends own = depends[static_cast<size_t>(node.id)];
    if (own != Depends::step) once.copy(node);
    if (own != Depends::fixed) {
      step.copy(node);
      continue;
    }
    for (size_t i = 0; i < border.size(); ++i)
      if (border[i].node == node.id) step.set(border[i], step.to().input(kept_leaf(i), graph.type(border[i])).id());
  }
  SessionGraphs graphs;
  for (const ValueId& id : border) kept.push_back(graph.type(id));
  for (size_t i = 0; i < border.size(); ++i) once.to().output(kept_leaf(i), once.value(border[i]));
  for (const Leaf& leaf : graph.leaves())
    if (once.has(leaf.value)) once.to().add_leaf({leaf.name, leaf.kind, once.moved(leaf.value)});
  graphs.once = std::move(once.to());
  graphs.step = step.finish();
  graphs.kept = std::move(kept);
  return graphs;
}

}  // namespace perigee
