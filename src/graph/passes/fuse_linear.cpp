#include "src/graph/passes/fuse_linear.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/graph/gelu.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

constexpr const char* kGelu = "gelu_tanh";  // an activation that is no op

struct Dense {
  int product = -1, last = -1;  // nodes; the fused op stands for `last`
  ValueId bias;
  std::string activation;  // empty: none
};

// A product that a linear can stand for.
bool is_product(const Graph& graph, const Node& node) { return node.op->dense && node.op->dense(OperandTypes(graph, node).call()); }

// gelu_tanh as layers write it, to compare with.
struct GeluChain {
  explicit GeluChain(const Type& type) : from(graph.input("z", type).id()), to(gelu_tanh(Value(&graph, from)).id()) {}
  Graph graph;
  ValueId from, to;
};

class LinearFuser {
 public:
  LinearFuser(const Graph& graph, GeluIn gelu) : graph_(graph), gelu_(gelu) {
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
    if (!adds(add)) return {};
    const ValueId other = add.inputs[0] == id ? add.inputs[1] : add.inputs[0];
    const int64_t outputs = graph_.type(id).shape.at(-1);
    if (other == id || graph_.type(other) != Type{graph_.type(id).dtype, Shape{outputs}}) return {};
    return other;
  }

  // Whether `id` is computed as `like` is in the chain; notes the nodes that it takes, but for constants.
  bool alike(const GeluChain& chain, ValueId like, ValueId z, ValueId id, std::set<int>* nodes) const {
    if (like == chain.from) return id == z;
    const Node &wanted = chain.graph.node(like), &node = graph_.node(id);
    if (node.op != wanted.op || node.inputs.size() != wanted.inputs.size() || node.outputs != wanted.outputs) return false;
    if (node.attrs.dump() != wanted.attrs.dump()) return false;
    if (!node.inputs.empty()) nodes->insert(node.id);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!alike(chain, wanted.inputs[i], z, node.inputs[i], nodes)) return false;
    return true;
  }

  // The node that is gelu_tanh of z, if no other node reads z or the values between; `between` gets the nodes of these.
  const Node* gelu_of(ValueId z, std::vector<int>* between) const {
    const auto users = users_.find(z);
    if (gelu_ == GeluIn::elementwise || users == users_.end()) return nullptr;
    const GeluChain chain(graph_.type(z));
    for (int user : users->second) {
      const Node* last = user < 0 ? nullptr : only_user({user, 0});  // of z / 2
      std::set<int> nodes;
      if (last == nullptr || !alike(chain, chain.to, z, {last->id, 0}, &nodes)) continue;
      const auto inside = [&](int id) { return nodes.contains(id); };
      bool closed = std::all_of(users->second.begin(), users->second.end(), inside);
      nodes.erase(last->id);
      for (int id : nodes) {
        const std::vector<int>& of = users_.at({id, 0});
        closed = closed && std::all_of(of.begin(), of.end(), [&](int reader) { return reader == last->id || inside(reader); });
      }
      if (!closed) continue;
      between->insert(between->end(), nodes.begin(), nodes.end());
      return last;
    }
    return nullptr;
  }

  void find(const Node& product) {
    Dense dense{.product = product.id, .last = product.id};
    const bool has_bias = product.inputs.size() > 2 && product.inputs[2].node >= 0;
    if (has_bias) dense.bias = product.inputs[2];
    std::vector<int> between;
    const auto take = [&](const Node& next) {
      between.push_back(dense.last);
      dense.last = next.id;
    };
    if (const Node* add = only_user({dense.last, 0}); add != nullptr && !has_bias)
      if (const auto bias = added_bias(*add, {dense.last, 0})) dense.bias = *bias, take(*add);
    if (const Node* next = only_user({dense.last, 0}); next != nullptr && takes_activation(linear_, next->op->activation))
      dense.activation = next->op->activation, take(*next);
    else if (const Node* gelu = gelu_of({dense.last, 0}, &between)) dense.activation = kGelu, take(*gelu);
    if (dense.last == product.id && product.op == &linear_) return;
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
    if (!dense.activation.empty()) attrs.set("activation", dense.activation);
    if (gelu_ == GeluIn::product_for_gradients && dense.activation == kGelu) attrs.set("keep", true);
    moved_[{dense.last, 0}] = result_.apply_all(linear_.name, operands, attrs)[0].id();
  }

  const Graph& graph_;
  const GeluIn gelu_;
  const OpDef& linear_ = op_named("linear");
  Graph result_;
  std::map<ValueId, std::vector<int>> users_;
  std::map<int, bool> vanishes_;
  std::map<int, Dense> found_;  // by last node
  std::map<ValueId, ValueId> moved_;
};

}  // namespace

Graph fuse_linear(const Graph& graph, GeluIn gelu) { return LinearFuser(graph, gelu).run(); }

}  // namespace perigee
