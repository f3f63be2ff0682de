#include "src/graph/passes/simplify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

// The axes from 0, as they are named or reversed.
std::vector<int64_t> transpose_order(const Node& node, int rank) {
  std::vector<int64_t> order = attr_ints(node, "order");
  for (int64_t& axis : order)
    if (axis < 0) axis += rank;
  for (int axis = rank - 1; order.size() < static_cast<size_t>(rank); --axis) order.push_back(axis);
  return order;
}

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
    if (is_op(node, "neg") && is_op(made(first), "neg")) return made(first).inputs[0];
    if (is_op(node, "transpose")) return transposed(node, first);
    const bool folds = (is_op(node, "fold_steps") && is_op(made(first), "unfold_steps")) ||
                       (is_op(node, "unfold_steps") && is_op(made(first), "fold_steps"));
    if (folds && type(made(first).inputs[0]) == result) return made(first).inputs[0];
    if (node.inputs.size() != 2 || node.inputs[1].node < 0) return {};
    const ValueId second = rewrite_.moved(node.inputs[1]);
    const auto neutral = [&](ValueId kept, ValueId other, double number) {
      const auto value = type(kept) == result ? filled(other) : std::nullopt;
      return value && *value == number;
    };
    if (is_op(node, "mul") || is_op(node, "add")) {
      const double number = is_op(node, "mul") ? 1 : 0;
      if (neutral(first, second, number)) return first;
      if (neutral(second, first, number)) return second;
    }
    if (is_op(node, "div") && neutral(first, second, 1)) return first;
    if (is_op(node, "sub") && neutral(first, second, 0)) return first;
    if (is_op(node, "pow") && type(first) == result) return power(first, filled(second));
    return {};
  }

  // Transposes in a row become one, and none where the dimensions are in order again.
  std::optional<ValueId> transposed(const Node& node, ValueId first) {
    const bool twice = is_op(made(first), "transpose");
    std::vector<int64_t> order = transpose_order(node, type(first).shape.rank());
    if (twice) {
      const std::vector<int64_t> inner = transpose_order(made(first), type(first).shape.rank());
      for (int64_t& axis : order) axis = inner[static_cast<size_t>(axis)];
    }
    const ValueId from = twice ? made(first).inputs[0] : first;
    if (std::is_sorted(order.begin(), order.end())) return from;
    if (!twice) return {};
    return rewrite_.to().apply("transpose", {Value(&rewrite_.to(), from)}, Json(Json::Object{{"order", ints_json(order)}})).id();
  }

  // The powers that have an op of their own.
  std::optional<ValueId> power(ValueId base, std::optional<double> exponent) {
    if (!exponent) return {};
    if (*exponent == 1) return base;
    static constexpr std::pair<double, const char*> kPowers[] = {{2, "square"}, {0.5, "sqrt"}, {-1, "reciprocal"}, {-0.5, "rsqrt"}};
    for (const auto& [number, op] : kPowers)
      if (*exponent == number && (number == 2 || type(base).dtype == Dtype::f32 || type(base).dtype == Dtype::f64))
        return rewrite_.to().apply(op, {Value(&rewrite_.to(), base)}).id();
    return {};
  }

  // Operands that a simpler one can stand for.
  void simplify_operands(Node& node) {
    if (is_op(node, "reshape"))
      while (is_op(made(node.inputs[0]), "reshape")) node.inputs[0] = made(node.inputs[0]).inputs[0];
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
