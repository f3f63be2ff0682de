#include "src/graph/passes/fuse_linear.h"

#include <map>
#include <optional>

#include "src/graph/op.h"

namespace perigee {
namespace {

struct Dense {
  int product = -1, last = -1;  // nodes; the fused op stands for `last`
  ValueId bias;
  bool relu = false;
};

bool is_op(const Node& node, std::string_view name) { return node.op->name == name; }

// A product that a linear can stand for.
bool is_product(const Graph& graph, const Node& node) {
  if (is_op(node, "linear")) return attr_string(node.attrs, "activation", "none") == "none";
  return is_op(node, "matmul") && graph.type(node.inputs[1]).shape.rank() == 2 && attr_bool(node.attrs, "transpose_b", false) &&
         !attr_bool(node.attrs, "transpose_a", false);
}

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes())
      for (const ValueId& id : node.inputs)
        if (id.node >= 0) users_[id].push_back(node.id);
    for (const NamedValue& output : graph.outputs()) users_[output.value].push_back(-1);
    for (const Assignment& assignment : graph.assignments()) users_[assignment.value].push_back(-1);
  }

  Graph run() {
    for (const Node& node : graph_.nodes())
      if (is_product(graph_, node)) find(node);
    for (const Tensor& constant : graph_.constants()) result_.add_constant(constant);
    for (const Node& node : graph_.nodes()) {
      if (vanishes_.contains(node.id)) continue;
      const auto dense = found_.find(node.id);
      dense == found_.end() ? copy(node) : emit(dense->second);
    }
    for (const Leaf& leaf : graph_.leaves()) result_.add_leaf({leaf.name, leaf.kind, moved(leaf.value)});
    for (const Assignment& assignment : graph_.assignments()) result_.assign(assignment.state, value(assignment.value));
    for (const NamedValue& output : graph_.outputs()) result_.output(output.name, value(output.value));
    result_.set_scope(graph_.scope());
    return std::move(result_);
  }

 private:
  const Node* only_user(ValueId id) const {
    const auto users = users_.find(id);
    if (users == users_.end() || users->second.size() != 1 || users->second[0] < 0) return nullptr;
    return &graph_.nodes()[static_cast<size_t>(users->second[0])];
  }

  std::optional<ValueId> added_bias(const Node& add, ValueId id) const {
    if (!is_op(add, "add")) return {};
    const ValueId other = add.inputs[0] == id ? add.inputs[1] : add.inputs[0];
    const int64_t outputs = graph_.type(id).shape.at(-1);
    if (other == id || graph_.type(other) != Type{graph_.type(id).dtype, Shape{outputs}}) return {};
    return other;
  }

  void find(const Node& product) {
    Dense dense{.product = product.id, .last = product.id};
    const bool has_bias = product.inputs.size() > 2 && product.inputs[2].node >= 0;
    if (has_bias) dense.bias = product.inputs[2];
    std::vector<int> between;
    for (const Node* next = only_user({dense.last, 0}); next && !dense.relu; next = only_user({dense.last, 0})) {
      if (is_op(*next, "relu")) {
        dense.relu = true;
      } else if (const auto bias = added_bias(*next, {dense.last, 0}); bias && dense.bias.node < 0) {
        dense.bias = *bias;
      } else {
        break;
      }
      between.push_back(dense.last);
      dense.last = next->id;
    }
    if (dense.last == product.id && is_op(product, "linear")) return;
    for (int node : between) vanishes_[node] = true;
    found_.emplace(dense.last, dense);
  }

  ValueId moved(ValueId id) const { return id.node < 0 ? id : moved_.at(id); }
  Value value(ValueId id) { return Value(&result_, moved(id)); }

  void copy(const Node& node) {
    Node same = node;
    for (ValueId& id : same.inputs) id = moved(id);
    const int id = result_.append(std::move(same)).node;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) moved_[{node.id, o}] = {id, o};
  }

  void emit(const Dense& dense) {
    const Node& product = graph_.nodes()[static_cast<size_t>(dense.product)];
    result_.set_scope(product.scope);
    std::vector<Value> operands = {value(product.inputs[0]), value(product.inputs[1])};
    if (dense.bias.node >= 0) operands.push_back(value(dense.bias));
    Json attrs = Json::object();
    if (dense.relu) attrs.set("activation", "relu");
    moved_[{dense.last, 0}] = result_.apply("linear", operands, attrs).id();
  }

  const Graph& graph_;
  Graph result_;
  std::map<ValueId, std::vector<int>> users_;
  std::map<int, bool> vanishes_;
  std::map<int, Dense> found_;  // by last node
  std::map<ValueId, ValueId> moved_;
};

}  // namespace

Graph fuse_linear(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace perigee
