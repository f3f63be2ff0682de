#include "src/graph/passes/simplify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

// By node: is needed for an output, an assignment, or is a leaf.
std::vector<bool> used_nodes(const Graph& graph) {
  std::vector<bool> used(graph.nodes().size(), false);
  for (const NamedValue& output : graph.outputs()) used[static_cast<size_t>(output.value.node)] = true;
  for (const Assignment& assignment : graph.assignments()) used[static_cast<size_t>(assignment.value.node)] = true;
  for (const Leaf& leaf : graph.leaves()) used[static_cast<size_t>(leaf.value.node)] = true;
  for (size_t i = used.size(); i-- > 0;)
    for (const ValueId& id : graph.nodes()[i].inputs)
      if (used[i] && id.node >= 0) used[static_cast<size_t>(id.node)] = true;
  return used;
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : rewrite_(graph) {}

  Graph run() {
    const std::vector<bool> used = used_nodes(rewrite_.from());
    for (const Node& node : rewrite_.from().nodes()) {
      if (!used[static_cast<size_t>(node.id)]) continue;
      if (const auto same = replacement(node)) {
        rewrite_.set({node.id, 0}, *same);
        continue;
      }
      add(node);
    }
    return rewrite_.finish();
  }

 private:
  const Node& made(ValueId id) { return rewrite_.to().node(id); }
  const Type& type(ValueId id) { return rewrite_.to().type(id); }

  // The number that a value is filled with.
  std::optional<double> filled(ValueId id) {
    const Node& node = made(id);
    if (node.op->constant) return attr_number(node, "value");
    if (node.op->repeats) return filled(node.inputs[0]);
    return {};
  }

  // A value of the new graph that equals the node's result.
  std::optional<ValueId> replacement(const Node& node) {
    if (node.inputs.empty() || node.inputs[0].node < 0) return {};
    const ValueId first = rewrite_.moved(node.inputs[0]);
    const Type& result = node.outputs[0];
    if (node.op->identity && type(first) == result) return first;
    if (!node.op->simpler) return {};
    std::vector<ValueId> operands;
    std::vector<std::optional<double>> numbers;
    for (const ValueId& id : node.inputs) {
      operands.push_back(rewrite_.moved(id));
      numbers.push_back(id.node < 0 ? std::nullopt : filled(operands.back()));
    }
    return node.op->simpler({rewrite_.to(), node, operands, numbers});
  }

  // Operands that a simpler one can stand for.
  void simplify_operands(Node& node) {
    if (node.op->reshapes)
      while (made(node.inputs[0]).op->reshapes) node.inputs[0] = made(node.inputs[0]).inputs[0];
    if (!node.op->elementwise || node.inputs.size() < 2) return;
    for (ValueId& id : node.inputs) {
      if (id.node < 0) continue;
      const ValueId smaller = unbroadcast(id);
      const ValueId before = id;
      if (smaller == before) continue;
      id = smaller;
      if (!still_fits(node)) id = before;
    }
  }

  // The value that a broadcast repeats: element-wise ops repeat by themselves. A constant becomes a scalar.
  ValueId unbroadcast(ValueId id) {
    if (const auto value = filled(id); value && type(id).shape.rank() > 0)
      return rewrite_.to().constant(*value, {type(id).dtype, Shape()}).id();
    while (made(id).op->repeats) id = made(id).inputs[0];
    return id;
  }

  bool still_fits(const Node& node) {
    const OperandTypes types(rewrite_.to(), node);
    return node.op->infer(types.call()) == node.outputs;
  }

  // Appends the node unless the new graph has its equal.
  void add(const Node& node) {
    Node copy = node;
    for (ValueId& id : copy.inputs) id = rewrite_.moved(id);
    simplify_operands(copy);
    if (is_leaf(node)) return append(node, std::move(copy));
    std::string key = node.op->name;
    for (const ValueId& id : copy.inputs) key += ' ' + std::to_string(id.node) + '.' + std::to_string(id.output);
    key += copy.attrs.dump() + '@' + std::to_string(reinterpret_cast<uintptr_t>(copy.body.get()));
    const auto [known, fresh] = known_.try_emplace(std::move(key), static_cast<int>(rewrite_.to().nodes().size()));
    if (fresh) return append(node, std::move(copy));
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) rewrite_.set({node.id, o}, {known->second, o});
  }

  void append(const Node& node, Node copy) {
    const int id = rewrite_.to().append(std::move(copy)).node;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) rewrite_.set({node.id, o}, {id, o});
  }

  Rewrite rewrite_;
  std::unordered_map<std::string, int> known_;
};

}  // namespace

Graph simplify(const Graph& graph) {
  const Graph simple = Simplifier(graph).run();
  // Some operands have lost their last user.
  const std::vector<bool> used = used_nodes(simple);
  Rewrite rewrite(simple);
  for (const Node& node : simple.nodes())
    if (used[static_cast<size_t>(node.id)]) rewrite.copy(node);
  return rewrite.finish();
}

}  // namespace perigee
